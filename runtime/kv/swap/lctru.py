"""The LCTRU queue: in which order chunks leave the memory (LLMS §3.4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

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
