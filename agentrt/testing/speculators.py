"""A predictor that does as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import anyio

from ..calls import ToolCall
from ..drafts import DraftRequest


class ScriptedSpeculator:
    """Guesses a given list of calls per turn, in the order of the turns, and records what it was asked.

    An exception in a list is raised in its place. A turn beyond the script gets no guesses.
    """

    def __init__(self, *turns: Sequence[ToolCall | Exception], delay: float = 0.0) -> None:
        """Wait ``delay`` seconds before the first guess of a turn (SpecTools' g)."""
        self.requests: list[DraftRequest] = []
        self._turns = turns
        self._delay = delay

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield this turn's guesses."""
        turn = len(self.requests)
        self.requests.append(request)
        await anyio.sleep(self._delay)
        for draft in self._turns[turn] if turn < len(self._turns) else ():
            if isinstance(draft, Exception):
                raise draft
            yield draft
