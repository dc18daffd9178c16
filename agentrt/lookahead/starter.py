"""When a turn sends the next model request ahead, and when that request is discarded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic

from ..calls import ToolCall
from ..tools.speculation import Speculation
from .ahead import AheadRequest, AheadTable, TurnT

SendAhead = Callable[[ToolCall, Speculation, int], AheadRequest[TurnT]]
"""Sends the request that follows a draft, with its depth: by how many turns it is ahead."""


class AheadStarter(Generic[TurnT]):
    """Follows a turn's first speculation with a request sent ahead, at most one a turn. Thread-safe."""

    def __init__(self, table: AheadTable[TurnT], send_ahead: SendAhead[TurnT] | None, depth: int) -> None:
        """``send_ahead`` None: the turn's request cannot be followed. ``depth`` is the turn's own."""
        self._table = table
        self._send_ahead = send_ahead
        self._depth = depth
        self._lock = threading.Lock()
        self._first: tuple[ToolCall, Speculation] | None = None
        self._ahead: AheadRequest[TurnT] | None = None
        self._begun = self._closed = False

    def started(self, draft: ToolCall, speculation: Speculation) -> None:
        """Take a started speculation; only the first one is followed."""
        with self._lock:
            if self._first is not None:
                return
            self._first = draft, speculation
        self._start_if_allowed()

    def set_depth(self, depth: int) -> None:
        """Lower the number of turns by which the turn is ahead, so that further requests may follow it."""
        with self._lock:
            self._depth = depth
            ahead = self._ahead
        if ahead is not None:
            ahead.turn.set_depth(depth + 1)
        self._start_if_allowed()

    def _start_if_allowed(self) -> None:
        with self._lock:
            depth = self._depth + 1
            first, send_ahead = self._first, self._send_ahead
            if first is None or send_ahead is None or self._begun or self._closed:
                return
            if not self._table.allows(depth):
                return
            self._begun = True
        ahead = send_ahead(*first, depth)
        with self._lock:
            if not self._closed:
                self._ahead = ahead
                return
        ahead.discard("the model answered meanwhile")

    def answered(self, keys: Sequence[str | None], scope: Hashable) -> None:
        """Take the keys of the calls that the model has made; expect the request if its draft was right."""
        with self._lock:
            ahead = self._ahead
            if ahead is None or keys != [ahead.key]:
                return
            self._ahead = None
        self._table.expect(scope, ahead)

    def close(self, reason: str) -> None:
        """Send no further request, and discard one that is not expected."""
        with self._lock:
            self._closed = True
            ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.discard(reason)
