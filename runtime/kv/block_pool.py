"""The pool of KV blocks and its prefix cache. Blocks are numbers; :class:`KVArena` owns their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .eviction_policy import EvictionPolicy


class BlockPool:
    """Reference counts of the blocks of one arena, and a prefix cache of complete blocks.

    A block that was *cached* under a hash stays usable after its last holder has released it: it is found
    again by its hash until its memory is needed (paged prefix caching, Agent.xpu §6.5). Which gives way first
    is decided by :attr:`eviction`. A hash stands for the block's tokens and everything before them, and is
    salted per app (:mod:`.block_hashes`), so that no app can find another app's blocks.

    Not thread-safe: the scheduler owns it, and the engine thread owns the scheduler.
    """

    def __init__(self, total: int) -> None:
        """Create a pool of the blocks ``0 … total - 1``, all free."""
        self.total = total
        # Last in, first out: a block that was just released is still in the CPU's caches.
        self._free = list(range(total - 1, -1, -1))
        self._holders = [0] * total
        self._block_of: dict[bytes, int] = {}
        self._hash_of: dict[int, bytes] = {}
        self.eviction = EvictionPolicy(total)
        """The cached blocks without a holder, and what is expected of them."""
        self._quarantined: set[int] = set()

    @property
    def free(self) -> int:
        """Blocks that :meth:`allocate` can give: unused ones, and cached ones without a holder."""
        return len(self._free) + len(self.eviction)

    @property
    def cached(self) -> int:
        """Blocks without a holder that can still be found by their hash."""
        return len(self.eviction)

    @property
    def usable(self) -> int:
        """All blocks but the quarantined ones."""
        return self.total - len(self._quarantined)

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks for one holder. Their content is undefined.

        The caller must have checked :attr:`free`: running out here is a bug, not a full arena.
        """
        if count > self.free:
            raise AssertionError(f"{count} blocks wanted, {self.free} free: the scheduler did not check")
        self.eviction.limit(self.free - count)
        blocks = []
        for _ in range(count):
            block = self._free.pop() if self._free else self._evict()
            self._holders[block] = 1
            blocks.append(block)
        return blocks

    def acquire_cached(self, block_hashes: Sequence[bytes]) -> list[int]:
        """Take the blocks of the longest prefix of ``block_hashes`` that is cached for one more holder."""
        blocks = []
        for place, block_hash in enumerate(block_hashes):
            block = self._block_of.get(block_hash)
            if block is None:
                self.eviction.missed(block_hashes[place:])
                break
            if not self._holders[block]:
                self.eviction.acquired(block_hash)
            self._holders[block] += 1
            blocks.append(block)
        self.eviction.limit(self.free)
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """Take ``blocks``, which are held, for one more holder."""
        for block in blocks:
            if not self._holders[block]:
                raise AssertionError(f"block {block} is shared, but has no holder")
            self._holders[block] += 1

    def find(self, block_hash: bytes) -> int | None:
        """Return the block that is cached under ``block_hash``, held or not; None if there is none."""
        return self._block_of.get(block_hash)

    def cache(self, block: int, block_hash: bytes, app: str = "") -> None:
        """Cache ``block`` of ``app``, held, complete and never written again, under ``block_hash``.

        Where another block with the same content is cached already, that one stays the one to be found.
        """
        if not self._holders[block]:
            raise AssertionError(f"block {block} is cached, but has no holder")
        if block_hash not in self._block_of and block not in self._hash_of:
            self._block_of[block_hash] = block
            self._hash_of[block] = block_hash
            self.eviction.computed(block_hash, app)

    def cached_blocks(self) -> dict[bytes, int]:
        """Return the blocks of :attr:`cached` by their hashes, the least recently used first."""
        return {block_hash: self._block_of[block_hash] for block_hash in self.eviction}

    def restore(self, block_hashes: Sequence[bytes]) -> list[int]:
        """Cache a free block under each of ``block_hashes``, the least recently used first, and return them.

        The caller then writes their content. There must be that many free blocks, and none is cached yet.
        """
        blocks = self.allocate(len(block_hashes))
        for block, block_hash in zip(blocks, block_hashes, strict=True):
            self.cache(block, block_hash)
        self.release(blocks[::-1])
        return blocks

    def release(self, blocks: Sequence[int]) -> None:
        """Release the block table of one holder. Cached blocks can still be found.

        Blocks at the end of the table are the first to be reused: a prefix is worth more than what follows
        it.
        """
        for block in reversed(blocks):
            if not self._holders[block]:
                raise AssertionError(f"block {block} was released twice")
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            block_hash = self._hash_of.get(block)
            if block_hash is None:
                self._free.append(block)
            else:
                self.eviction.released(block_hash)

    def freed_by(self, released: Mapping[int, int]) -> int:
        """How many more blocks would be free if each were released ``released[block]`` times."""
        return sum(self._holders[block] == times for block, times in released.items())

    def quarantine(self, blocks: Iterable[int]) -> None:
        """Take held, uncached blocks out of use for good: a kernel that hangs may still write to them."""
        for block in blocks:
            if self._holders[block] != 1 or block in self._hash_of:
                raise AssertionError(f"block {block} is shared, so that no kernel may write to it")
            self._holders[block] = 0
            self._quarantined.add(block)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Check that ``tables``, the block tables of all holders, account for every reference.

        Raises:
            AssertionError: a block was lost, is in another number of tables than counted, or is both held
                and free. Always a bug.
        """
        held = Counter(block for table in tables for block in table)
        for block, holders in enumerate(self._holders):
            if held[block] != holders:
                raise AssertionError(f"block {block} is in {held[block]} tables, {holders} are counted")
        if not set(self.eviction) <= self._block_of.keys():
            raise AssertionError("a block is kept for reuse that cannot be found")
        idle = [self._block_of[block_hash] for block_hash in self.eviction]
        unheld = sorted([*self._free, *idle, *self._quarantined])
        if sorted([*held, *unheld]) != list(range(self.total)):
            raise AssertionError(
                f"KV blocks are not conserved: {len(held)} held + {len(unheld)} not, {self.total} exist"
            )
        if {block_hash: block for block, block_hash in self._hash_of.items()} != self._block_of:
            raise AssertionError("a cached block cannot be found by its hash")

    def _evict(self) -> int:
        block = self._block_of.pop(self.eviction.evict())
        del self._hash_of[block]
        return block
