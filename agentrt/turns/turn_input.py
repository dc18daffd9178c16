"""What one turn is about: the run, its tools, its model request, and what must not be done with them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping

from ..drafts import DraftRequest, copied_request
from ..tools.restrictions import Restrictions
from ..tools.speculable_tool import SpeculableTool
from .history import CallHistory


class TurnInput:
    """The input of one turn, each part built once, when it is first asked for."""

    def __init__(
        self,
        number: int,
        *,
        tools: Mapping[str, SpeculableTool],
        scope: Hashable,
        samples: int,
        request: Callable[[], DraftRequest],
        restrictions: Callable[[], Restrictions],
    ) -> None:
        """``number`` is the turn's in reports, ``scope`` that of its run, None if it has none.

        ``request`` returns the model request for the predictors, ``restrictions`` which of ``tools`` must not
        run speculatively.
        """
        self.number = number
        self.tools = tools
        self.scope = scope
        self.may_disclose = False
        """Whether tools that disclose their arguments may run with values that are new to them."""
        self.restrictions = functools.cache(restrictions)
        self._samples = samples
        self._history: tuple[DraftRequest, CallHistory] | None = None
        self.take_request(request)

    def take_request(self, request: Callable[[], DraftRequest]) -> None:
        """Replace the request: that of a turn which is ahead is known later."""
        # A copy, because predictors may change it.
        self.request = functools.cache(
            lambda: copied_request(dataclasses.replace(request(), samples=self._samples))
        )

    def history(self) -> CallHistory:
        """Return the calls in the messages of the request."""
        request = self.request()
        if self._history is None or self._history[0] is not request:
            self._history = request, CallHistory(request.messages, self.tools)
        return self._history[1]

    def permitted(self) -> list[str]:
        """Return the tools that may run speculatively."""
        return self.restrictions().permitted(self.tools)

    def following(self, number: int, request: Callable[[], DraftRequest]) -> TurnInput:
        """Return the input of the turn that follows this one in its run, ahead of it."""
        return TurnInput(
            number,
            tools=self.tools,
            scope=self.scope,
            samples=self._samples,
            request=request,
            restrictions=self.restrictions,
        )
