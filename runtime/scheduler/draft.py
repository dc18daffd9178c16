"""A draft: tokens that may follow a sequence, which a forward pass verifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_DRAFT_TOKENS: Final = 128
"""Maximum number of draft tokens verified at once: a longer batch would delay the other requests."""

LEAST_REACHED: Final = 0.02
"""Probability of being reached below which a token is not drafted: its verification never pays."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may follow a sequence."""

    tokens: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    """How likely the model is to accept each token if it accepts those before it, from 0 to 1.

    The scheduler verifies as many tokens as are expected to save more time than their verification takes.
    """

    def first(self, count: int) -> Draft:
        """Return the draft of the first ``count`` tokens."""
        if len(self.tokens) <= count:
            return self
        return Draft(self.tokens[:count], self.probabilities[:count])

    @property
    def expected_tokens(self) -> float:
        """How many tokens are expected to be accepted."""
        expected, reached = 0.0, 1.0
        for probability in self.probabilities:
            reached *= probability
            expected += reached
        return expected


NO_DRAFT: Final = Draft()
