"""Levels of the chunks of a context: by information density, under a budget of bytes (LLMS Eqs. 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from .codec import AS_IT_IS, WHOLE, BlockCodec
from .density import densities_by_position

NOT_PROTECTED: Final = 2**31
"""A place in a sequence that no plan protects from low levels."""


class ContextCompression:
    """Levels of chunks under a global ratio. Thread-safe."""

    def __init__(self, codec: BlockCodec, losses: Mapping[int, float], ratio: float) -> None:
        """``losses`` are of the levels that the model bears; without any, chunks are stored as they are.

        ``ratio`` is the bytes of chunks over those that they have at 8 bits, everything counted.
        """
        self.codec: Final = codec
        self._ratio = ratio
        self._costs = [
            LevelCost(level, codec.payload_bytes(level, NOT_PROTECTED), loss)
            for level, loss in losses.items()
            if level in codec.levels
        ]

    @property
    def ranks(self) -> bool:
        """Whether there are levels to choose from."""
        return bool(self._costs)

    def levels(
        self, densities: Sequence[float], positions: Sequence[int], stored: Sequence[int | None]
    ) -> list[int]:
        """Return the level of each chunk of a context, of these densities and positions, in order.

        ``stored`` are the levels that chunks have already, below which they may be taken, but never above;
        None for new ones. Where no density was measured, all being 0, the positions stand for it. Together
        they have the ratio; where the model does not bear the levels that this needs, the bytes exceed it.
        """
        if not self._costs:
            return [AS_IT_IS] * len(densities)
        if not any(densities):
            densities = densities_by_position(positions)
        whole = self.codec.payload_bytes(WHOLE, 0)
        free = [at for at, position in enumerate(positions) if not self.codec.is_protected(position)]
        levels = [WHOLE] * len(positions)
        budget = int(self._ratio * whole * len(positions)) - whole * (len(positions) - len(free))
        most = [WHOLE if (level := stored[at]) is None else level for at in free]
        chosen = choose_levels([densities[at] for at in free], most, self._costs, budget)
        for at, level in zip(free, chosen, strict=True):
            levels[at] = level
        return levels


class LevelCost(NamedTuple):
    """What storing a chunk at one level costs."""

    level: int
    """The higher, the more bits."""
    bytes: int
    """Bytes of a chunk."""
    loss: float
    """Harm per unit of information density, in any unit."""


def choose_levels(
    densities: Sequence[float], most: Sequence[int], costs: Sequence[LevelCost], budget_bytes: int
) -> list[int]:
    """Return the level of each chunk: the least sum of density times loss within ``budget_bytes``.

    No chunk gets a higher level than its one of ``most``. Among those that may have the highest one, a denser
    chunk never has fewer bits than a less dense one (Eq. 2); of equally dense ones the later has more, as
    what comes next attends to it more. LLMS maximises the information that is kept (Eq. 3), and this
    minimises what is lost, by losses measured for the model. ``costs`` are of at most three levels.

    Where even the lowest level exceeds the budget, all chunks have it.

    Raises:
        ValueError: there is no level, or one with more bytes that loses more, or more than three.
    """
    ranked = sorted(costs, key=lambda cost: -cost.bytes)
    if not 1 <= len(ranked) <= 3 or [cost.loss for cost in ranked] != sorted(cost.loss for cost in ranked):
        raise ValueError("one to three levels are needed, the larger of which lose less")
    # With one or two levels the others stand for levels that nothing gains from.
    high, middle, low = ranked[0], ranked[len(ranked) // 2], ranked[-1]
    order = np.lexsort((np.arange(len(densities)), np.asarray(densities)))[::-1]
    caps = np.asarray(most)[order]
    order, caps = order[caps > low.level], caps[caps > low.level]
    left = budget_bytes - len(densities) * low.bytes
    levels = [low.level] * len(densities)
    highs, middles = _counts(np.asarray(densities)[order], caps >= high.level, left, high, middle, low)
    is_high = (caps >= high.level) & (np.cumsum(caps >= high.level) <= highs)
    for chunk in order[is_high].tolist():
        levels[chunk] = high.level
    for chunk in order[~is_high][:middles].tolist():
        levels[chunk] = middle.level
    return levels


def _counts(
    densities: np.ndarray, full: np.ndarray, left: int, high: LevelCost, middle: LevelCost, low: LevelCost
) -> tuple[int, int]:
    """Return how many of the densest chunks have the high level, and how many of the others the middle one.

    ``densities`` are from the densest on, ``full`` says which chunks may have the high level, and ``left`` is
    what the budget leaves when all have the low one. For each number of chunks at the high level the best
    number at the middle one is the largest that the budget allows.
    """
    kept, kept_full, kept_other = (
        np.concatenate([[0.0], np.cumsum(each)]) for each in (densities, densities[full], densities[~full])
    )
    highs = np.arange(len(kept_full))
    left_bytes = left - highs * (high.bytes - low.bytes)
    each = middle.bytes - low.bytes
    middles = np.clip(left_bytes // each, 0, len(densities) - highs) if each else np.zeros_like(highs)
    # The densest that are not high: behind those that are, or all before the last of these is reached.
    ends = highs + middles
    full_before = np.concatenate([[0], np.cumsum(full)])[ends]
    others = kept_other[np.minimum(middles, len(kept_other) - 1)]
    kept_middle = np.where(full_before >= highs, kept[ends] - kept_full[highs], others)
    gains = kept_full[highs] * (low.loss - high.loss) + kept_middle * (low.loss - middle.loss)
    best = int(np.argmax(np.where(left_bytes >= 0, gains, -1.0)))
    return best, int(middles[best])
