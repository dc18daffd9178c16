"""Levels of the chunks of a context by information density, under a budget of bytes (LLMS Eqs. 2, 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class LevelCost(NamedTuple):
    """What storing a chunk at one level costs."""

    level: int
    bytes: int
    """Bytes of a chunk."""
    loss: float
    """Harm per unit of information density, in any unit."""


def choose_levels(densities: Sequence[float], costs: Sequence[LevelCost], budget_bytes: int) -> list[int]:
    """Return the level of each chunk: the least sum of density times loss within ``budget_bytes``.

    A denser chunk never has fewer bits than a less dense one (Eq. 2); of equally dense ones the later has
    more, as what comes next attends to it more. LLMS maximises the information that is kept (Eq. 3), and
    this minimises what is lost, by losses measured for the model. ``costs`` are of at most three levels.

    Where even the lowest level exceeds the budget, all chunks have it.

    Raises:
        ValueError: there is no level, or one with more bytes that loses more, or more than three.
    """
    ranked = sorted(costs, key=lambda cost: -cost.bytes)
    if not 1 <= len(ranked) <= 3 or [cost.loss for cost in ranked] != sorted(cost.loss for cost in ranked):
        raise ValueError("one to three levels are needed, the larger of which lose less")
    order = np.lexsort((np.arange(len(densities)), np.asarray(densities)))[::-1]
    # With one or two levels the others stand for levels that nothing gains from.
    high, middle, low = ranked[0], ranked[len(ranked) // 2], ranked[-1]
    kept = np.concatenate([[0.0], np.cumsum(np.asarray(densities, np.float64)[order])])
    first, second = _thresholds(kept, high, middle, low, budget_bytes)
    levels = [low.level] * len(densities)
    for rank, chunk in enumerate(order[:second].tolist()):
        levels[chunk] = (high if rank < first else middle).level
    return levels


def _thresholds(
    kept: np.ndarray, high: LevelCost, middle: LevelCost, low: LevelCost, budget_bytes: int
) -> tuple[int, int]:
    """Return how many chunks have at least the high, and at least the middle level.

    ``kept[i]`` is the density of the ``i`` densest chunks. For each number of chunks at the high level the
    best number at the middle one is the largest that the budget allows.
    """
    chunks = len(kept) - 1
    highs = np.arange(chunks + 1)
    left = budget_bytes - chunks * low.bytes - highs * (high.bytes - low.bytes)
    each = middle.bytes - low.bytes
    middles = np.minimum(left // each, chunks - highs) if each else np.zeros_like(highs)
    possible = left >= 0
    if not possible[0]:
        return 0, 0
    seconds = highs + middles
    losses = (
        kept[highs] * high.loss
        + (kept[np.clip(seconds, 0, chunks)] - kept[highs]) * middle.loss
        + (kept[-1] - kept[np.clip(seconds, 0, chunks)]) * low.loss
    )
    best = int(np.argmin(np.where(possible, losses, np.inf)))
    return best, int(seconds[best])


def densities_by_position(positions: Sequence[int]) -> list[float]:
    """Return densities of the chunks at these positions, in order, whose attention was not measured.

    The first chunk of a context is attended to by every token (attention sinks); of the others the later ones
    more.
    """
    chunks = len(positions)
    return [1.0 + at / chunks if position else 1.0 + chunks for at, position in enumerate(positions)]
