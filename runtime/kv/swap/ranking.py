"""Which levels the chunks of a context get when one of its requests has ended (LLMS §3.2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ..compression.block_attention import BlockAttention
from .chunks import SwapOut
from .recompressor import ChunkLevel, Key, Recompressor

_MOST_DENSITIES: Final = 2**16
"""Chunks whose density is kept in memory. Others have that with which they were stored."""

ChooseLevels: TypeAlias = Callable[[Sequence[float], Sequence[int], Sequence[int | None]], Sequence[int]]
"""See :meth:`ContextCompression.levels`."""


class ChunkRanking:
    """Ranks the chunks of a context as a whole, at each of its requests anew: those change densities.

    A level is never raised, as its bits are gone. Used on one thread.
    """

    def __init__(self, choose: ChooseLevels, recompressor: Recompressor) -> None:
        """``choose`` chooses levels; ``recompressor`` lowers those of stored chunks."""
        self._choose = choose
        self.recompressor: Final = recompressor
        self._densities: OrderedDict[Key, float] = OrderedDict()

    def rank(self, swap_out: SwapOut, on_the_way: Mapping[Key, ChunkLevel | None]) -> dict[bytes, ChunkLevel]:
        """Return the levels of the new chunks of an ended request; have stored ones lowered.

        ``on_the_way`` are chunks that are not stored yet.
        """
        hashes = swap_out.block_hashes
        new = {chunk.block_hash for chunk in swap_out.chunks}
        coming = [on_the_way.get((swap_out.app, each)) for each in hashes]
        stored = [
            None if each in new else self.recompressor.level_of((swap_out.app, each)) or level
            for each, level in zip(hashes, coming, strict=True)
        ]
        # Others were lost, and are computed again when they are needed.
        places = [at for at, block_hash in enumerate(hashes) if stored[at] or block_hash in new]
        densities = [self._density(swap_out, at, stored[at]) for at in places]
        while len(self._densities) > _MOST_DENSITIES:
            self._densities.popitem(last=False)
        former = [None if (each := stored[at]) is None else each.level for at in places]
        chosen: dict[bytes, ChunkLevel] = {}
        lowered: dict[bytes, ChunkLevel] = {}
        levels = self._choose(densities, places, former)
        for at, density, before, level in zip(places, densities, former, levels, strict=True):
            if level != before:
                (chosen if before is None else lowered)[hashes[at]] = ChunkLevel(level, density)
        self.recompressor.want(swap_out.app, lowered)
        return chosen

    def _density(self, swap_out: SwapOut, place: int, stored: ChunkLevel | None) -> float:
        """Return the density of a chunk with what the request has measured of it (Eq. 1), and keep it."""
        key = (swap_out.app, swap_out.block_hashes[place])
        former = self._densities.pop(key, stored.density if stored else 0.0)
        measured = swap_out.attention[place] if swap_out.attention else BlockAttention()
        self._densities[key] = density = measured.joined(former)
        return density
