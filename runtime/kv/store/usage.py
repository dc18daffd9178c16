"""What contexts take on disk, what they may take, and the order in which they were used."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

Quota = Literal["context_app_bytes", "context_disk_bytes"]
QUOTAS: Final[tuple[Quota, ...]] = ("context_app_bytes", "context_disk_bytes")


@dataclass(frozen=True, slots=True)
class StoreQuotas:
    """What contexts may take on disk, by the names of the settings; None is without limit."""

    context_app_bytes: int | None = None
    context_disk_bytes: int | None = None


@dataclass(slots=True)
class _Context:
    app: str
    used_ns: int
    text_bytes: int = 0
    chunk_bytes: int = 0


class Usage:
    """Bytes and last use of contexts, under the names of their files. Thread-safe."""

    def __init__(self, quotas: StoreQuotas, clock: Callable[[], int]) -> None:
        """``clock`` returns nanoseconds since the epoch; it may go backwards."""
        self._quotas = quotas
        self._clock = clock
        self._newest_ns = 0
        self._lock = threading.Lock()
        self._contexts: dict[str, _Context] = {}
        self._app_bytes: Counter[str] = Counter()
        self._text_bytes = 0
        self._chunk_bytes = 0

    def add(self, name: str, app: str, used_ns: int) -> None:
        """Add a context that was last used at ``used_ns``."""
        with self._lock:
            self._contexts[name] = _Context(app, used_ns)
            self._newest_ns = max(self._newest_ns, used_ns)

    def remove(self, name: str) -> None:
        """Remove a context with its bytes."""
        self.set_bytes(name, text=0, chunks=0)
        with self._lock:
            del self._contexts[name]

    def touch(self, name: str) -> int:
        """Make the context the most recently used one, and return the time of this use.

        These times only grow, so that the order survives a clock that goes backwards.
        """
        with self._lock:
            self._newest_ns = max(self._clock(), self._newest_ns + 1)
            if name in self._contexts:
                self._contexts[name].used_ns = self._newest_ns
            return self._newest_ns

    def set_bytes(self, name: str, *, text: int | None = None, chunks: int | None = None) -> None:
        """Note how large the files of the context are now; None is unchanged."""
        with self._lock:
            context = self._contexts[name]
            text_before, chunks_before = context.text_bytes, context.chunk_bytes
            context.text_bytes = text_before if text is None else text
            context.chunk_bytes = chunks_before if chunks is None else chunks
            more_text, more_chunks = context.text_bytes - text_before, context.chunk_bytes - chunks_before
            self._text_bytes += more_text
            self._chunk_bytes += more_chunks
            self._app_bytes[context.app] += more_text + more_chunks

    def bytes_of(self, name: str) -> int:
        """Return the bytes of a context; 0 if there is none of that name."""
        context = self._contexts.get(name)
        return 0 if context is None else context.text_bytes + context.chunk_bytes

    def used_ns(self, name: str) -> int:
        """Return when a context was last used; 0 if there is none of that name."""
        context = self._contexts.get(name)
        return 0 if context is None else context.used_ns

    @property
    def text_bytes(self) -> int:
        """Bytes of all texts."""
        return self._text_bytes

    @property
    def chunk_bytes(self) -> int:
        """Bytes of all files of chunks."""
        return self._chunk_bytes

    def limit(self, quota: Quota) -> int | None:
        """Return the value of a quota."""
        limit: int | None = getattr(self._quotas, quota)
        return limit

    def exceeds(self, quota: Quota, app: str, added: int) -> bool:
        """Return whether ``added`` more bytes of the app would exceed a quota."""
        used = self._app_bytes[app] if quota == "context_app_bytes" else self._text_bytes + self._chunk_bytes
        limit = self.limit(quota)
        return limit is not None and used + added > limit

    def exceeded(self, app: str, added: int) -> Quota | None:
        """Return a quota that ``added`` more bytes of the app would exceed, or None."""
        return next((quota for quota in QUOTAS if self.exceeds(quota, app, added)), None)

    def with_chunks(self, app: str | None = None) -> list[str]:
        """Return the contexts of one app, or of all, that have a file of chunks.

        The least recently used is the first.
        """
        with self._lock:
            found = [
                (context.used_ns, name)
                for name, context in self._contexts.items()
                if context.chunk_bytes and app in (None, context.app)
            ]
        return [name for _, name in sorted(found)]
