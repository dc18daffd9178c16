"""Which KV blocks are free. Blocks are plain numbers; the bytes belong to :mod:`.arena`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class BlockPool:
    """Hands out the blocks of one arena, each to one holder at a time.

    Not thread-safe: the scheduler owns it, and the engine thread owns the scheduler.
    """

    def __init__(self, total: int) -> None:
        """All of the blocks ``0 … total - 1`` start out free."""
        self.total = total
        # Last in, first out: a block that was just released is still in the CPU's caches.
        self._free = list(range(total - 1, -1, -1))
        self._held = bytearray(total)

    @property
    def free(self) -> int:
        """Number of free blocks."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` free blocks. Their content is undefined.

        The caller must have checked :attr:`free`: running out here would be a bug, not a full arena.
        """
        if count > len(self._free):
            raise AssertionError(
                f"{count} blocks wanted, {len(self._free)} free: the scheduler did not check"
            )
        start = len(self._free) - count
        blocks = self._free[start:][::-1]
        del self._free[start:]
        for block in blocks:
            self._held[block] = 1
        return blocks

    def release(self, blocks: Iterable[int]) -> None:
        """Give blocks back; each must be held."""
        for block in blocks:
            if not self._held[block]:
                raise AssertionError(f"block {block} was released twice")
            self._held[block] = 0
            self._free.append(block)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Check that every block is either free or in exactly one of ``tables``, the block tables in use.

        Raises:
            AssertionError: a block was lost, is held twice, or is held and free. Always a bug.
        """
        held = [block for table in tables for block in table]
        accounted = sorted(held + self._free)
        if accounted != list(range(self.total)):
            raise AssertionError(
                f"KV blocks are not conserved: {len(held)} held + {len(self._free)} free, {self.total} exist"
            )
        if sum(self._held) != len(held):
            raise AssertionError(f"{sum(self._held)} blocks are marked held, {len(held)} are in tables")
