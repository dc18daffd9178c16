"""What one turn is about: the run, its tools, its model request and the calls in its history."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..calls import ToolCall, parse_arguments
from ..drafts import DraftRequest, copied_request
from ..tools.restrictions import Restrictions
from ..tools.speculable_tool import SpeculableTool


class CallHistory:
    """The calls of speculable tools in the messages of one model request, in OpenAI's shape."""

    def __init__(self, messages: Sequence[Mapping[str, Any]], tools: Mapping[str, SpeculableTool]) -> None:
        """Messages of another shape, and calls that no tool of ``tools`` takes, are left out."""
        self.called: set[str] = set()
        """The tools that were called, with a result."""
        self.keys: set[str] = set()
        """The keys of the calls since the user's last message whose results still hold.

        A call is left out once a tool of ``invalidated_by`` was called in the same answer or after it.
        """
        answered = {str(message.get("tool_call_id")) for message in messages if message.get("role") == "tool"}
        holding: dict[str, SpeculableTool] = {}
        for message in messages:
            if message.get("role") == "user":
                holding.clear()
            calls = _calls_of(message)
            for call in calls:
                called = tools.get(call.name)
                if called is not None:
                    if str(call.id) in answered:
                        self.called.add(call.name)
                    with suppress(Exception):  # validators and canonicalisers are the user's
                        holding[called.key_of(call.arguments)] = called
            # Calls of one answer may run at once: a read beside a write may be from before it.
            written = {call.name for call in calls}
            for key, tool in list(holding.items()):
                if not written.isdisjoint(tool.options.invalidated_by):
                    del holding[key]
        self.keys.update(holding)


def _calls_of(message: Mapping[str, Any]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    made = message.get("tool_calls")
    for call in made if isinstance(made, Sequence) else ():
        with suppress(KeyError, TypeError, ValueError):
            function = call["function"]
            calls.append(ToolCall(function["name"], parse_arguments(function["arguments"]), call.get("id")))
    return calls


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
        self.request = functools.cache(lambda: copied_request(request(), self._samples))

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
