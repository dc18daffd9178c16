"""How often retrieved draft tokens are accepted, learned from those that were verified."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

_LENGTHS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Match lengths from which a new class begins."""
_PRIOR: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9)
"""Acceptance of these lengths before any draft was verified."""
_SHARES: Final = (0.5, 1.0)
"""Shares of the occurrences that continue with the token from which a new class begins."""
_SHARE_PRIOR: Final = (0.5, 0.8, 1.0)
_TOTALS: Final = 4
"""Numbers of occurrences that are told apart, the last of them with those above."""
_PRIOR_TOKENS: Final = 4.0
"""Verified tokens that the prior counts as much as."""
_MEMORY: Final = 0.98
"""Weight of what was learned after one more token of its class, so that about the last 50 count."""


class AcceptanceRates:
    """Acceptance of a retrieved token by the length of the match before it and by how its occurrences agree.

    What is learned for all numbers of occurrences is the prior of each number. A token further on in a draft
    counts as one behind a longer match, because it is verified only if the tokens before it were right. Not
    thread-safe.
    """

    def __init__(self) -> None:
        """Begin with the prior."""
        self._rates = [
            [length * share * _PRIOR_TOKENS, _PRIOR_TOKENS] for share in _SHARE_PRIOR for length in _PRIOR
        ]
        self._by_total = [[0.0, 0.0] for _ in range(_TOTALS * len(self._rates))]

    @staticmethod
    def classify(match_length: int, count: int, total: int) -> int:
        """Return the class of a token with which ``count`` of ``total`` occurrences of a match continue."""
        length = max(0, bisect_right(_LENGTHS, match_length) - 1)
        general = bisect_right(_SHARES, count / total) * len(_LENGTHS) + length
        return general * _TOTALS + min(total, _TOTALS) - 1

    def probability(self, token_class: int) -> float:
        """Return the probability that a token of a class is accepted."""
        accepted, verified = self._rates[token_class // _TOTALS]
        own_accepted, own_verified = self._by_total[token_class]
        return (own_accepted + _PRIOR_TOKENS * accepted / verified) / (own_verified + _PRIOR_TOKENS)

    def learn(self, token_class: int, *, accepted: bool) -> None:
        """Note that a token of a class was verified."""
        for rate in (self._rates[token_class // _TOTALS], self._by_total[token_class]):
            rate[0] = _MEMORY * rate[0] + accepted
            rate[1] = _MEMORY * rate[1] + 1.0
