"""Which KV blocks are free, held or kept for reuse. Blocks are numbers; the bytes belong to :mod:`.arena`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence


class BlockPool:
    """Counts who holds each block of one arena, and remembers what complete blocks contain.

    A block that was *published* under a key stays usable after its last holder has gone: it is found again by
    its key until its memory is needed, the least recently used first (paged prefix caching, Agent.xpu §6.5).
    A key stands for the block's tokens and everything before them, and carries the salt of one app
    (:mod:`.prefix`), so that no app can find another one's blocks.

    Not thread-safe: the scheduler owns it, and the engine thread owns the scheduler.
    """

    def __init__(self, total: int) -> None:
        """All of the blocks ``0 … total - 1`` start out free."""
        self.total = total
        # Last in, first out: a block that was just released is still in the CPU's caches.
        self._free = list(range(total - 1, -1, -1))
        self._holders = [0] * total
        self._block_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}
        self._idle: dict[int, None] = {}  # published and held by nobody, least recently used first
        self._quarantined: set[int] = set()

    @property
    def free(self) -> int:
        """Blocks that :meth:`allocate` can give: those never used and those only kept for reuse."""
        return len(self._free) + len(self._idle)

    @property
    def cached(self) -> int:
        """Blocks that nobody holds and that can still be found by their key."""
        return len(self._idle)

    @property
    def usable(self) -> int:
        """All blocks but the quarantined ones."""
        return self.total - len(self._quarantined)

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks for one holder. Their content is undefined.

        The caller must have checked :attr:`free`: running out here would be a bug, not a full arena.
        """
        if count > self.free:
            raise AssertionError(f"{count} blocks wanted, {self.free} free: the scheduler did not check")
        blocks = []
        for _ in range(count):
            if self._free:
                block = self._free.pop()
            else:
                block = next(iter(self._idle))
                del self._idle[block]
                self._unpublish(block)
            self._holders[block] = 1
            blocks.append(block)
        return blocks

    def share(self, keys: Sequence[bytes]) -> list[int]:
        """Hold the blocks of the longest prefix of ``keys`` that is still in memory; perhaps none."""
        blocks = []
        for key in keys:
            block = self._block_of.get(key)
            if block is None:
                break
            if not self._holders[block]:
                del self._idle[block]
            self._holders[block] += 1
            blocks.append(block)
        return blocks

    def publish(self, block: int, key: bytes) -> None:
        """Let ``block``, complete and never written again, be found by ``key``.

        Where another block has the same content already, that one stays the one to be found.
        """
        if not self._holders[block]:
            raise AssertionError(f"block {block} is published, but nobody holds it")
        if key not in self._block_of and block not in self._key_of:
            self._block_of[key] = block
            self._key_of[block] = key

    def release(self, blocks: Sequence[int]) -> None:
        """Let one holder go of its block table. Published blocks can still be found.

        The end of the table becomes the first to be reused: a prefix is worth more than what follows it.
        """
        for block in reversed(blocks):
            if not self._holders[block]:
                raise AssertionError(f"block {block} was released twice")
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            if block in self._key_of:
                self._idle[block] = None
            else:
                self._free.append(block)

    def freed_by(self, released: Mapping[int, int]) -> int:
        """How many blocks would be free in addition if each were released ``released[block]`` times."""
        return sum(self._holders[block] == times for block, times in released.items())

    def quarantine(self, blocks: Iterable[int]) -> None:
        """Take held, unpublished blocks out of use for good: a kernel that hangs may still write to them."""
        for block in blocks:
            if self._holders[block] != 1 or block in self._key_of:
                raise AssertionError(f"block {block} is shared: nobody was allowed to write to it")
            self._holders[block] = 0
            self._quarantined.add(block)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Check that ``tables``, the block tables of all holders, are what every block is held by.

        Raises:
            AssertionError: a block was lost, is held by another number of tables than counted, or is held
                and free. Always a bug.
        """
        held = Counter(block for table in tables for block in table)
        for block, holders in enumerate(self._holders):
            if held[block] != holders:
                raise AssertionError(f"block {block} is in {held[block]} tables, {holders} are counted")
        unheld = sorted([*self._free, *self._idle, *self._quarantined])
        if sorted([*held, *unheld]) != list(range(self.total)):
            raise AssertionError(
                f"KV blocks are not conserved: {len(held)} held + {len(unheld)} not, {self.total} exist"
            )
        if {key: block for block, key in self._key_of.items()} != self._block_of:
            raise AssertionError("a published block cannot be found by its key")
        if not self._idle.keys() <= self._key_of.keys():
            raise AssertionError("a block is kept for reuse without a key")

    def _unpublish(self, block: int) -> None:
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._block_of[key]
