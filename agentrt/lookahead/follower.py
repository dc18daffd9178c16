"""Which call of the main model is made ahead of a turn's answer, and what becomes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic

from ..calls import ToolCall
from ..tools.speculation import Speculation
from .ahead import AheadRequest, AheadTable, TurnT

StartAhead = Callable[[ToolCall, Speculation, int], AheadRequest[TurnT]]


class AheadStarter(Generic[TurnT]):
    """Follows the first guess of a turn further: there may be one call ahead of each turn. Thread-safe."""

    def __init__(self, book: AheadTable[TurnT], open_ahead: StartAhead[TurnT] | None, depth: int) -> None:
        """``open_ahead`` sets a call going that follows on a guess, so many turns ahead; None: none does."""
        self._book = book
        self._open_ahead = open_ahead
        self._depth = depth
        self._lock = threading.Lock()
        self._first: tuple[ToolCall, Speculation] | None = None
        self._ahead: AheadRequest[TurnT] | None = None
        self._begun = self._over = False

    def started(self, call: ToolCall, speculation: Speculation) -> None:
        """Take note of an early run; only the first one is followed."""
        with self._lock:
            if self._first is not None:
                return
            self._first = call, speculation
        self._go()

    def come_due(self, depth: int) -> None:
        """Say that the turn is now only ``depth`` turns ahead, so that others may follow on it."""
        with self._lock:
            self._depth = depth
            ahead = self._ahead
        if ahead is not None:
            ahead.turn.come_due(depth + 1)
        self._go()

    def _go(self) -> None:
        with self._lock:
            depth = self._depth + 1
            first, open_ahead = self._first, self._open_ahead
            if first is None or open_ahead is None or self._begun or self._over:
                return
            if not self._book.allows(depth):
                return
            self._begun = True
        ahead = open_ahead(*first, depth)
        with self._lock:
            if not self._over:
                self._ahead = ahead
                return
        ahead.discard("the model answered meanwhile")

    def answered(self, keys: Sequence[str | None], scope: Hashable) -> None:
        """Take the keys of the calls that the model has made."""
        with self._lock:
            ahead = self._ahead
            if ahead is None or keys != [ahead.key]:
                return
            self._ahead = None
        self._book.expect(scope, ahead)

    def close(self, reason: str) -> None:
        """Follow no further, and discard what was not expected."""
        with self._lock:
            self._over = True
            ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.discard(reason)
