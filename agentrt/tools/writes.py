"""Read-your-writes: a speculated result is not used after a call that may have changed it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable


class WriteLog:
    """The latest call of each watched tool in each run. Thread-safe, bounded.

    Time is counted in calls, not seconds. A call that the log no longer holds counts as a write: speculations
    from before it are not used.
    """

    def __init__(self, *, max_entries: int = 4096) -> None:
        """The log holds at most ``max_entries`` pairs of run and tool."""
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._now = 0
        self._forgotten = 0
        self._watched: set[str] = set()
        self._last: OrderedDict[tuple[Hashable, str], int] = OrderedDict()

    def watch(self, tools: Iterable[str]) -> None:
        """Log calls of these tools from now on; calls of other tools are not logged."""
        with self._lock:
            self._watched.update(tools)

    def watches(self, tool: str) -> bool:
        """Whether calls of ``tool`` are logged."""
        with self._lock:
            return tool in self._watched

    def now(self) -> int:
        """Return the current moment, for :meth:`written_since`."""
        with self._lock:
            return self._now

    def note(self, scope: Hashable, tool: str) -> None:
        """Log that the run ``scope`` calls ``tool`` now, or has just called it."""
        with self._lock:
            if tool not in self._watched:
                return
            self._now += 1
            self._last[scope, tool] = self._now
            self._last.move_to_end((scope, tool))
            if len(self._last) > self._max_entries:
                self._forgotten = self._last.popitem(last=False)[1]

    def written_since(self, moment: int, scope: Hashable, tools: Iterable[str]) -> str | None:
        """Return one of ``tools`` that the run has called after ``moment``, or None."""
        with self._lock:
            for tool in tools:
                if self._last.get((scope, tool), self._forgotten) > moment:
                    return tool
        return None


write_log = WriteLog()
"""The log of this process: tools and their pending claims belong to the process, too."""
