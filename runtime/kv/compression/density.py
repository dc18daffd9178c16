"""Information density of the chunks of a context: the attention that their tokens are paid (LLMS Eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .block_attention import BlockAttention


class AttentionMass:
    """The attention that each token of one sequence has been paid by those that were computed so far (Eq. 1).

    Not thread-safe: it belongs to the engine thread.
    """

    __slots__ = ("_mass", "_rows", "_tokens")

    def __init__(self) -> None:
        """Create the mass of a sequence of which nothing has been computed."""
        self._mass = np.zeros(0)
        self._rows = np.zeros(0)
        self._tokens = 0

    def add(self, scores: Sequence[NDArray[np.float32]], past: int) -> None:
        """Add the scores of a batch that has computed the sequence's tokens from ``past`` on.

        ``scores`` has those of each scored layer, ``[tokens so far]``: sums over heads and new tokens.
        """
        tokens = len(scores[0])
        self._tokens = max(self._tokens, tokens)
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

    def of_blocks(self, block_tokens: int, blocks: int) -> list[BlockAttention]:
        """Return what was measured of each of the first ``blocks`` blocks, on average over its tokens.

        The attention of a token is what it was paid by later ones, and itself.
        """
        tokens = blocks * block_tokens
        if tokens > len(self._mass):
            missing = tokens - len(self._mass)
            self._mass, self._rows = np.pad(self._mass, (0, missing)), np.pad(self._rows, (0, missing))
        rows = self._rows[:tokens].reshape(blocks, block_tokens)
        densities = (self._mass[:tokens].reshape(rows.shape) / np.maximum(rows, 1)).mean(1)
        behind = np.maximum(self._tokens - np.arange(tokens), 1).reshape(rows.shape)
        shares = np.minimum(rows.sum(1) / behind.sum(1), 1.0)
        return [BlockAttention(*each) for each in zip(densities.tolist(), shares.tolist(), strict=True)]


def densities_by_position(positions: Sequence[int]) -> list[float]:
    """Return densities of the chunks at these positions, in order, whose attention was not measured.

    The first chunk of a context is attended to by every token (attention sinks); of the others the later ones
    more.
    """
    chunks = len(positions)
    return [1.0 + at / chunks if position else 1.0 + chunks for at, position in enumerate(positions)]
