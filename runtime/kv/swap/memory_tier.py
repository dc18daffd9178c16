"""The memory tier: compressed chunks in memory, within a budget in bytes (LLMS §3.4)."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from math import inf
from typing import Final, TypeAlias

from ..store.chunk_files import Chunk

_SHARE_OF_FREE: Final = 8
_LOOK_AGAIN_S: Final = 1.0

_Key: TypeAlias = tuple[str, bytes]

_AS_IS_BITS: Final = 32
"""Bits a value by which chunks that are not compressed are ordered: they are the heaviest."""


class MemoryTier:
    """Chunks by app and block hash. Thread-safe; no app finds another app's chunks.

    What does not fit the budget is forgotten in the order of the LCTRU queue: the *least
    compression-tolerable* chunks first, and among them the least recently used. A heavy one frees as much
    memory as several lighter ones, each of which would cost as much to recompute. Chunks in the store can be
    read from there again.
    """

    def __init__(
        self,
        budget_bytes: int,
        available: Callable[[], int | None] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an empty tier of at most ``budget_bytes`` bytes of payloads; 0 keeps nothing.

        Where ``available`` returns the memory that the machine has free, an eighth of that and of what the
        tier has is a limit, too: it gives way to what others need. None: nothing is known to be free.
        """
        self._budget_bytes = budget_bytes
        self._available = available
        self._clock = clock
        self._look_again_at = -inf
        self._spare_bytes = 0
        self._chunks: dict[_Key, Chunk] = {}
        self._by_bits: dict[int, OrderedDict[_Key, None]] = defaultdict(OrderedDict)
        self._lock = threading.Lock()
        self.payload_bytes = 0
        """Bytes of all payloads."""
        self.evicted = 0
        """Chunks that were forgotten for others."""

    def __contains__(self, key: _Key) -> bool:
        """Return whether the chunk of ``(app, block hash)`` is here. Takes no lock."""
        return key in self._chunks

    def put(self, app: str, chunk: Chunk) -> None:
        """Keep ``chunk`` as the most recently used, and forget others to stay within the budget."""
        key = (app, chunk.block_hash)
        with self._lock:
            budget = self._budget()
            if len(chunk.payload) <= budget:
                self._add(key, chunk)
            while self.payload_bytes > budget:
                self._drop(next(iter(self._by_bits[max(self._by_bits)])))
                self.evicted += 1

    def get(self, app: str, block_hash: bytes) -> Chunk | None:
        """Return a chunk, which is now the most recently used of its level; None if it is not here."""
        key = (app, block_hash)
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._by_bits[chunk.level or _AS_IS_BITS].move_to_end(key)
            return chunk

    def peek(self, app: str, block_hash: bytes) -> Chunk | None:
        """Return a chunk without using it; None if it is not here. Takes no lock."""
        return self._chunks.get((app, block_hash))

    def replace(self, app: str, chunk: Chunk) -> None:
        """Keep ``chunk`` in the place of the one of its hash, if that is here and no smaller."""
        with self._lock:
            former = self._chunks.get((app, chunk.block_hash))
            if former is not None and len(chunk.payload) <= len(former.payload):
                self._add((app, chunk.block_hash), chunk)

    def hashes(self, app: str) -> list[bytes]:
        """Return the hashes of all chunks of ``app``."""
        with self._lock:
            return [block_hash for owner, block_hash in self._chunks if owner == app]

    def forget(self, app: str, block_hash: bytes) -> None:
        """Drop a chunk, if it is here."""
        with self._lock:
            self._drop((app, block_hash))

    def clear(self) -> None:
        """Drop all chunks."""
        with self._lock:
            self._chunks.clear()
            self._by_bits.clear()
            self.payload_bytes = 0

    def _budget(self) -> int:
        """Return how many bytes the tier may have now; what is free is looked up once a second at most."""
        if self._available is None:
            return self._budget_bytes
        if (now := self._clock()) >= self._look_again_at:
            self._look_again_at = now + _LOOK_AGAIN_S
            self._spare_bytes = ((self._available() or 0) + self.payload_bytes) // _SHARE_OF_FREE
        return min(self._budget_bytes, self._spare_bytes)

    def _add(self, key: _Key, chunk: Chunk) -> None:
        self._drop(key)
        self._chunks[key] = chunk
        self._by_bits[chunk.level or _AS_IS_BITS][key] = None
        self.payload_bytes += len(chunk.payload)

    def _drop(self, key: _Key) -> None:
        chunk = self._chunks.pop(key, None)
        if chunk is not None:
            self.payload_bytes -= len(chunk.payload)
            queue = self._by_bits[bits := chunk.level or _AS_IS_BITS]
            del queue[key]
            if not queue:
                del self._by_bits[bits]
