"""Ahead-of-time swap-out: what a request has computed is stored before its memory is needed (LLMS §3.4)."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable

from ..kv.block_pool import BlockPool
from ..kv.swap.chunks import ChunkSwapper, OutgoingChunk, SwapOut
from .sequence import Sequence


class SwapOuts:
    """Holds the blocks of ended requests until the swapper has copied them.

    A cached block that is held is never written, so that any thread may copy it meanwhile.
    """

    def __init__(self, pool: BlockPool, block_tokens: int, swapper: ChunkSwapper) -> None:
        """Create an empty table."""
        self._pool = pool
        self._block_tokens = block_tokens
        self._swapper = swapper
        self._blocks: dict[int, int] = {}

    @property
    def held_blocks(self) -> list[int]:
        """The blocks that are held, as often as they are."""
        return [block for block, times in self._blocks.items() for _ in range(times)]

    def begin(self, sequence: Sequence, hashes: abc.Sequence[bytes]) -> None:
        """Hand over the complete blocks of an ended request: to store those that are not stored yet.

        ``hashes`` are those of all its complete blocks that may be shared. Blocks that the arena has lost
        meanwhile are left out.
        """
        densities = self._densities(sequence, len(hashes))
        chunks: list[OutgoingChunk] = []
        for position, block_hash in enumerate(hashes):
            if self._swapper.stores(sequence.app, block_hash):
                continue
            for block in self._pool.acquire_cached([block_hash]):
                chunks.append(OutgoingChunk(block_hash, position, block, densities[position]))
                self._blocks[block] = self._blocks.get(block, 0) + 1
        assert sequence.block_hashes is not None
        salt = sequence.block_hashes.salt
        self._swapper.swap_out(SwapOut(sequence.app, sequence.context_id, tuple(hashes), tuple(chunks), salt))

    def _densities(self, sequence: Sequence, blocks: int) -> list[float]:
        if sequence.attention is None:
            return [0.0] * blocks
        return sequence.attention.densities(self._block_tokens, blocks)

    def release(self, blocks: Iterable[int]) -> None:
        """Note that ``blocks`` have been copied."""
        for block in blocks:
            self._blocks[block] -= 1
            if not self._blocks[block]:
                del self._blocks[block]
            self._pool.release([block])
