"""Levels of the chunks of a context: by information density, under a budget of bytes (LLMS Eqs. 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .codec import AS_IT_IS, WHOLE, BlockCodec
from .density import densities_by_position

NOT_PROTECTED: Final = 2**31
"""A place in a sequence that no plan protects from low levels."""

_ROUNDING: Final = 1e-9

_Numbers: TypeAlias = NDArray[np.float64]
_Counts: TypeAlias = NDArray[np.int64]


class ContextCompression:
    """Levels of chunks under a global ratio. Thread-safe."""

    def __init__(
        self, codec: BlockCodec, losses: Mapping[int, float], ratio: float, tolerance: float
    ) -> None:
        """``losses`` are of the levels that the model bears; without any, chunks are stored as they are.

        ``ratio`` is the bytes of chunks over those that they have at 8 bits, everything counted,
        ``tolerance`` the most that a context may lose.
        """
        self.codec: Final = codec
        self._ratio = ratio
        self._tolerance = tolerance
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
        chosen = choose_levels([densities[at] for at in free], most, self._costs, budget, self._tolerance)
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
    densities: Sequence[float],
    most: Sequence[int],
    costs: Sequence[LevelCost],
    budget_bytes: int,
    tolerance: float,
) -> list[int]:
    """Return the level of each chunk: the least sum of density times loss within ``budget_bytes``.

    No chunk gets a higher level than its one of ``most``. Among those that may have the highest one, a denser
    chunk never has fewer bits than a less dense one (Eq. 2); of equally dense ones the later has more, as
    what comes next attends to it more. LLMS maximises the information that is kept (Eq. 3), and this
    minimises what is lost, by losses measured for the model. ``costs`` are of at most three levels.

    The mean loss of all chunks is within ``tolerance``, as if all were equally dense: what is attended to
    next, no density knows. Where that takes more than the budget, it takes as few bytes as possible.

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
    is_full = caps >= high.level
    highs, middles = _counts(
        _Gains(np.asarray(densities, np.float64)[order], is_full),
        budget_bytes - len(densities) * low.bytes,
        len(densities) * (low.loss - tolerance),
        (high.bytes - low.bytes, middle.bytes - low.bytes),
        (low.loss - high.loss, low.loss - middle.loss),
    )
    levels = [low.level] * len(densities)
    is_high = is_full & (np.cumsum(is_full) <= highs)
    for chunk in order[is_high].tolist():
        levels[chunk] = high.level
    for chunk in order[~is_high][:middles].tolist():
        levels[chunk] = middle.level
    return levels


class _Gains:
    """Densities of the chunks that get a high level, and of those that get a middle one, by their numbers."""

    def __init__(self, densities: _Numbers, full: NDArray[np.bool_]) -> None:
        """``densities`` are from the densest on; ``full`` says which chunks may have the high level."""
        self.chunks: Final = len(densities)
        self._kept, self._kept_full, self._kept_other = (
            np.concatenate([[0.0], np.cumsum(each)])
            for each in (densities, densities[full], densities[~full])
        )
        self._full_before = np.concatenate([[0], np.cumsum(full)])
        self.highs: Final = np.arange(len(self._kept_full))
        """All numbers of chunks that may have the high level: the densest ones have it."""

    def of(self, middles: _Counts) -> tuple[_Numbers, _Numbers]:
        """Return both sums for each of :attr:`highs`, ``middles`` being how many others have the middle one.

        These are the densest that have not the high one: behind those, or all before the last of them.
        """
        ends = self.highs + middles
        others = self._kept_other[np.minimum(middles, len(self._kept_other) - 1)]
        behind = self._full_before[ends] >= self.highs
        return self._kept_full, np.where(behind, self._kept[ends] - self._kept_full, others)


def _counts(
    gains: _Gains, left: int, excess: float, costs: tuple[int, int], saved: tuple[float, float]
) -> tuple[int, int]:
    """Return how many of the densest chunks have the high level, and how many of the others the middle one.

    If all had the low one, ``left`` bytes of the budget would be left, and ``excess`` loss beyond the
    tolerance. A chunk at the high and at the middle level costs these bytes more, and has saved so much loss.
    """
    highs = gains.highs
    left_bytes, missing = left - highs * costs[0], excess - highs * saved[0]
    # For each number of chunks at the high level the best at the middle one is what the budget allows.
    middles = np.clip(left_bytes // costs[1], 0, gains.chunks - highs) if costs[1] else 0 * highs
    least = np.maximum(np.ceil(missing / saved[1] - _ROUNDING), 0) if saved[1] else 0 * highs
    tolerable = (least <= gains.chunks - highs) & (missing <= least * saved[1] + _ROUNDING)
    of_high, of_middle = gains.of(middles)
    within = tolerable & (left_bytes >= 0) & (least <= middles)
    if within.any():
        best = int(np.argmax(np.where(within, of_high * saved[0] + of_middle * saved[1], -1.0)))
    elif tolerable.any():
        middles = np.where(tolerable, least, 0).astype(np.int64)
        best = int(np.argmin(np.where(tolerable, highs * costs[0] + middles * costs[1], np.inf)))
    else:  # what was lost before cannot be got back
        best = len(highs) - 1
        middles[best] = gains.chunks - best
    return best, int(middles[best])
