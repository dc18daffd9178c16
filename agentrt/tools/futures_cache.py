"""The futures cache of SpecTools, Algorithm 2: the speculations of one turn by canonical key."""

from __future__ import annotations

import threading

from .speculation import Speculation


class FuturesCache:
    """The speculations of one turn by canonical key. Thread-safe.

    It is bounded and single-flight: one key runs once, and at most ``max_entries`` keys run. Each speculation
    is taken at most once. After :meth:`close` nothing can be added.
    """

    def __init__(self, max_entries: int) -> None:
        """``max_entries`` counts all speculations that are ever added."""
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: dict[str, Speculation] = {}
        self._added: set[str] = set()
        self._closed = False

    def __contains__(self, key: str) -> bool:
        """Whether this key has been added, even if its speculation has been taken."""
        with self._lock:
            return key in self._added

    @property
    def closed(self) -> bool:
        """Whether the cache refuses additions."""
        return self._closed

    def add(self, speculation: Speculation) -> bool:
        """Add ``speculation``; return False if its key was added before, or the cache is full or closed."""
        key = speculation.draft.key
        with self._lock:
            if self._closed or key in self._added or len(self._added) >= self._max_entries:
                return False
            self._added.add(key)
            self._entries[key] = speculation
            return True

    def take(self, key: str) -> Speculation | None:
        """Remove and return the speculation of ``key`` if it is usable; drop it if it is not any more."""
        with self._lock:
            speculation = self._entries.get(key)
            why = None if speculation is None else speculation.why_unusable()
            if speculation is not None and why is None:
                del self._entries[key]
        if speculation is None or why is None:
            return speculation
        speculation.drop(why)
        return None

    def why_missing(self, key: str) -> str:
        """Return why :meth:`take` has returned None for ``key``."""
        with self._lock:
            speculation = self._entries.get(key)
        if speculation is not None:
            return speculation.lost_because
        return "taken by an equal call" if key in self else "not predicted"

    def close(self, reason: str) -> None:
        """Refuse additions from now on, and drop the remaining speculations for ``reason``."""
        with self._lock:
            self._closed = True
            remaining = list(self._entries.values())
            self._entries.clear()
        for speculation in remaining:
            speculation.drop(reason)
