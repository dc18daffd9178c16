"""A scripted predictor, and predictions that cost nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager

import anyio

from ..calls import ToolCall
from ..drafts import DraftRequest
from ..turns import payoff


class ScriptedSpeculator:
    """Yields a given list of calls for each turn, in the order of the turns, and records the requests.

    An exception in a list is raised in its place. A turn beyond the script gets no drafts.
    """

    def __init__(self, *turns: Sequence[ToolCall | Exception], delay: float = 0.0) -> None:
        """``delay`` is the seconds until the first draft of a turn (SpecTools' g)."""
        self.requests: list[DraftRequest] = []
        self._turns = turns
        self._delay = delay

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the drafts of the next turn of the script."""
        turn = len(self.requests)
        self.requests.append(request)
        await anyio.sleep(self._delay)
        for draft in self._turns[turn] if turn < len(self._turns) else ():
            if isinstance(draft, Exception):
                raise draft
            yield draft


def free_prediction() -> AbstractContextManager[None]:
    """Take prediction to cost nothing, in the whole process, inside a ``with`` block.

    A predictor is run only where it is expected to save more time than it costs, so tests whose models and
    tools take no time see hardly any speculation. Inside the block the time of models and tools does not
    matter. Predictors that are wrong are still stopped, and budgets still bind.
    """
    return payoff.free_prediction()
