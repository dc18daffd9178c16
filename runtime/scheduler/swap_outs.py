"""Ahead-of-time swap-out: what a request has computed is stored before its memory is needed (LLMS §3.4)."""

from __future__ import annotations

from collections import Counter, abc
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..kv.block_pool import BlockPool
from ..kv.swap.chunks import ChunkSwapper, OutgoingChunk, SwapOut
from .sequence import Sequence


@dataclass(eq=False)
class SwapOuts:
    """Holds the blocks of ended requests until the swapper has copied them.

    A cached block that is held is never written, so that any thread may copy it meanwhile.
    """

    pool: BlockPool
    block_tokens: int
    swapper: ChunkSwapper
    _blocks: Counter[int] = field(default_factory=Counter)
    """The blocks that are held, and how often."""

    @property
    def held_blocks(self) -> list[int]:
        """The blocks that are held, as often as they are."""
        return list(self._blocks.elements())

    def begin(self, sequence: Sequence, hashes: abc.Sequence[bytes]) -> None:
        """Hand over the complete blocks of an ended request: to store those that are not stored yet.

        ``hashes`` are those of all its complete blocks that may be shared. Blocks that the arena has lost
        meanwhile are left out.
        """
        densities = [0.0] * len(hashes)
        if sequence.attention is not None:
            densities = sequence.attention.densities(self.block_tokens, len(hashes))
        chunks: list[OutgoingChunk] = []
        for position, block_hash in enumerate(hashes):
            if self.swapper.stores(sequence.app, block_hash):
                continue
            for block in self.pool.acquire_cached([block_hash]):
                chunks.append(OutgoingChunk(block_hash, position, block, densities[position]))
                self._blocks[block] += 1
        assert sequence.block_hashes is not None
        salt = sequence.block_hashes.salt
        self.swapper.swap_out(SwapOut(sequence.app, sequence.context_id, tuple(hashes), tuple(chunks), salt))

    def release(self, blocks: Iterable[int]) -> None:
        """Note that ``blocks`` have been copied."""
        for block in blocks:
            self._blocks[block] -= 1
            if not self._blocks[block]:
                del self._blocks[block]
            self.pool.release([block])
