"""Compression of a runtime's contexts: the codec, and which level each chunk gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .codec import AS_IT_IS, WHOLE, BlockCodec
from .levels import LevelCost, choose_levels, densities_by_position

_NOT_PROTECTED: Final = 2**31


class ContextCompression:
    """Levels of chunks under a global ratio. Thread-safe."""

    def __init__(self, codec: BlockCodec, losses: Mapping[int, float], ratio: float) -> None:
        """``losses`` are of the levels that the model bears; without any, chunks are stored as they are.

        ``ratio`` is the bytes of chunks over those that they have at 8 bits, everything counted.
        """
        self.codec: Final = codec
        self._ratio = ratio
        self._costs = [
            LevelCost(level, codec.payload_bytes(level, _NOT_PROTECTED), loss)
            for level, loss in losses.items()
            if level in codec.levels
        ]

    def levels(self, densities: Sequence[float], positions: Sequence[int]) -> list[int]:
        """Return the level of each of some chunks of one context, of these densities and positions, in order.

        Where no density was measured, all being 0, the positions stand for it.
        They have the ratio among themselves: what was stored before keeps its level. Where the model does
        not bear the levels that the ratio needs, the bytes exceed it.
        """
        if not self._costs:
            return [AS_IT_IS] * len(densities)
        if not any(densities):
            densities = densities_by_position(positions)
        whole = self.codec.payload_bytes(WHOLE, 0)
        protected = [self.codec.is_protected(position) for position in positions]
        free = [index for index, is_protected in enumerate(protected) if not is_protected]
        budget = int(self._ratio * whole * len(positions)) - whole * sum(protected)
        levels = [WHOLE] * len(positions)
        chosen = choose_levels([densities[index] for index in free], self._costs, budget)
        for index, level in zip(free, chosen, strict=True):
            levels[index] = level
        return levels


def stored_as_they_are(densities: Sequence[float], positions: Sequence[int]) -> list[int]:
    """Return the levels of chunks that are not compressed."""
    return [AS_IT_IS] * len(positions)
