"""How likely draft tokens are accepted, learned for each app and kind of source (sd.npu §2.3)."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_PRIOR: Final = (-4.5, 1.2, 3.8, 0.7)
"""Weights of the features before anything was learned, fitted to answers of two models (decision 0035)."""
_RATES: Final = (0.2, 0.04, 0.04, 0.04)
"""Learning rates. The first weight, by which all tokens become more or less likely, learns the quickest: text
in which nothing repeats shows within some twenty tokens."""
_MOST_COUNTED: Final = 4096
_LOGARITHMS: Final = (0.0, *(math.log(count) for count in range(1, _MOST_COUNTED)))
"""Of small numbers, which are needed some hundred times in a forward pass."""


class Evidence(NamedTuple):
    """What speaks for a token."""

    match_length: int
    """Tokens before it that occurred before, in the same order. Those that are drafted count: it is verified
    only if they were right."""
    agreeing: int
    """Occurrences that continue with it."""
    total: int
    """All occurrences."""

    @property
    def features(self) -> tuple[float, float, float, float]:
        """A constant, and what makes the token more likely."""
        length, total = min(self.match_length, _MOST_COUNTED - 1), min(self.total, _MOST_COUNTED - 1)
        return 1.0, _LOGARITHMS[length], self.agreeing / self.total, _LOGARITHMS[total]


class AcceptanceModel:
    """Logistic regression of the acceptance of tokens on their evidence. Not thread-safe.

    It starts from weights that hold on average and goes on learning: each app, and each kind of source, has a
    model of its own.
    """

    def __init__(self) -> None:
        """Begin with the prior."""
        self._weights = _PRIOR

    def probability(self, evidence: Evidence) -> float:
        """Return the probability that a token with this evidence is accepted."""
        constant, length, share, total = self._weights
        _, by_length, by_share, by_total = evidence.features
        return 1.0 / (1.0 + math.exp(-constant - length * by_length - share * by_share - total * by_total))

    def learn(self, evidence: Evidence, *, accepted: bool) -> None:
        """Learn from a token that was verified, or would have been right or wrong."""
        error = accepted - self.probability(evidence)
        constant, length, share, total = (
            weight + rate * error * feature
            for weight, rate, feature in zip(self._weights, _RATES, evidence.features, strict=True)
        )
        self._weights = (constant, max(0.0, length), max(0.0, share), max(0.0, total))
