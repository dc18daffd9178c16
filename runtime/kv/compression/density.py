"""Information density of the chunks of a sequence: the attention that its tokens are paid (LLMS Eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class AttentionMass:
    """The attention that each token of one sequence has been paid by those that were computed so far.

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
