"""Levels of the chunks of a context: by information density, under a budget of bytes (LLMS Eqs. 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .codec import AS_IT_IS, WHOLE, BlockCodec

_NOT_PROTECTED: Final = 2**31


class AttentionMass:
    """The attention that each token of one sequence has been paid by those that were computed so far (Eq. 1).

    Not thread-safe: it belongs to the engine thread.
    """

    __slots__ = ("_mass", "_rows")

    def __init__(self) -> None:
        """Create the mass of a sequence of which nothing has been computed."""
        self._mass = np.zeros(0)
        self._rows = np.zeros(0)

    def add(self, scores: Sequence[NDArray[np.float32]], past: int) -> None:
        """Add the scores of a batch that has computed the sequence's tokens from ``past`` on.

        ``scores`` has those of each scored layer, ``[tokens so far]``: sums over heads and new tokens.
        """
        tokens = len(scores[0])
        if tokens > len(self._mass):
            grown = max(tokens, 2 * len(self._mass))
            self._mass = np.pad(self._mass, (0, grown - len(self._mass)))
            self._rows = np.pad(self._rows, (0, grown - len(self._rows)))
        new = tokens - past
        for layer in scores:
            # The attention of each head and new token adds up to 1.
            self._mass[:tokens] += layer * (new / (len(scores) * max(float(layer.sum()), 1e-30)))
        self._rows[:past] += new
        self._rows[past:tokens] += np.arange(new, 0, -1)

    def densities(self, block_tokens: int, blocks: int) -> list[float]:
        """Return the density of each of the first ``blocks`` blocks: the mean over its tokens.

        That of a token is the attention that later tokens, and itself, paid it on average; 0 where none has
        been measured.
        """
        tokens = blocks * block_tokens
        if tokens > len(self._mass):
            missing = tokens - len(self._mass)
            self._mass, self._rows = np.pad(self._mass, (0, missing)), np.pad(self._rows, (0, missing))
        of_tokens = self._mass[:tokens] / np.maximum(self._rows[:tokens], 1)
        of_blocks: list[float] = of_tokens.reshape(blocks, block_tokens).mean(1).tolist()
        return of_blocks


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
