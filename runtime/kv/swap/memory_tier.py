"""The memory tier: compressed chunks in memory, within a budget in bytes (LLMS §3.4)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

from ..store.chunks import Chunk

_Key: TypeAlias = tuple[str, bytes]

_AS_IS_BITS = 32
"""Bits a value by which chunks that are not compressed are ordered: they are the heaviest."""

K = TypeVar("K", bound=Hashable)


class LCTRUQueue(Generic[K]):
    """Keys of chunks: *least compression-tolerable* first, and among them the least recently used first.

    One sub-queue for each level of compression. Of two chunks of different levels the heavier one goes first:
    it frees as much memory as several lighter ones, each of which would cost as much to recompute.
    """

    def __init__(self) -> None:
        """Create an empty queue."""
        self._by_bits: dict[int, OrderedDict[K, None]] = {}
        self._bits: dict[K, int] = {}

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._bits)

    def __contains__(self, key: K) -> bool:
        """Return whether ``key`` is in the queue."""
        return key in self._bits

    def use(self, key: K, bits: int) -> None:
        """Add ``key``, a chunk of ``bits`` bits a value, or note that it is used now."""
        if key in self._bits:
            self.remove(key)
        self._bits[key] = bits
        self._by_bits.setdefault(bits, OrderedDict())[key] = None

    def remove(self, key: K) -> None:
        """Remove ``key``, which is in the queue."""
        queue = self._by_bits[bits := self._bits.pop(key)]
        del queue[key]
        if not queue:
            del self._by_bits[bits]

    def pop(self) -> K:
        """Remove and return the key that is evicted first; there must be one."""
        key = next(iter(self._by_bits[max(self._by_bits)]))
        self.remove(key)
        return key


class MemoryTier:
    """Chunks by app and block hash. Thread-safe; no app finds another app's chunks.

    What does not fit the budget is forgotten in the order of the LCTRU queue. Chunks in the store can be read
    from there again.
    """

    def __init__(self, budget_bytes: int) -> None:
        """Create an empty tier of at most ``budget_bytes`` bytes of payloads; 0 keeps nothing."""
        self._budget_bytes = budget_bytes
        self._chunks: dict[_Key, Chunk] = {}
        self._queue = LCTRUQueue[_Key]()
        self._lock = threading.Lock()
        self._bytes = 0
        self._evicted = 0

    @property
    def payload_bytes(self) -> int:
        """Bytes of all payloads."""
        return self._bytes

    @property
    def evicted(self) -> int:
        """Chunks that were forgotten for others."""
        return self._evicted

    def __contains__(self, key: _Key) -> bool:
        """Return whether the chunk of ``(app, block hash)`` is here. Takes no lock."""
        return key in self._chunks

    def put(self, app: str, chunk: Chunk) -> None:
        """Keep ``chunk`` as the most recently used, and forget others to stay within the budget."""
        if len(chunk.payload) > self._budget_bytes:
            return
        key = (app, chunk.block_hash)
        with self._lock:
            self._drop(key)
            self._chunks[key] = chunk
            self._queue.use(key, chunk.level or _AS_IS_BITS)
            self._bytes += len(chunk.payload)
            while self._bytes > self._budget_bytes:
                self._drop(self._queue.pop())
                self._evicted += 1

    def get(self, app: str, block_hash: bytes) -> Chunk | None:
        """Return a chunk, which is now the most recently used of its level; None if it is not here."""
        key = (app, block_hash)
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._queue.use(key, chunk.level or _AS_IS_BITS)
            return chunk

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
            self._queue = LCTRUQueue()
            self._bytes = 0

    def _drop(self, key: _Key) -> None:
        chunk = self._chunks.pop(key, None)
        if chunk is not None:
            self._bytes -= len(chunk.payload)
            if key in self._queue:
                self._queue.remove(key)
