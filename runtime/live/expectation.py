"""When requests get their first token: estimates of the scheduler, corrected by what came of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..engine.request_status import RequestStatus

_WEIGHT: Final = 0.2
"""Of the newest observation in the mean."""
_LEAST_S: Final = 0.002
"""Shorter estimates tell nothing of how much longer it takes."""
_MOST: Final = 1000.0


class Expectation:
    """Expected times to the first token of one engine's requests.

    What has to be computed for a request and before it is known. It takes longer where decodes and more
    urgent requests come between, by a factor that is the mean of what it was for earlier requests of the
    same priority.
    """

    def __init__(self) -> None:
        """Correct nothing yet."""
        self._factors = {True: 1.0, False: 1.0}
        self._first_seen: dict[str, tuple[float, float]] = {}
        """Of requests without a first token: when they were seen first, and what was estimated then."""

    def seconds(self, requests: Sequence[RequestStatus], now: float) -> dict[str, float]:
        """Return the seconds until the first token, by request, of those that have none.

        ``requests`` are those that have not ended, in serving order, ``now`` is on the platform's clock.
        """
        self._learn(requests)
        ahead_s, expected = 0.0, {}
        for each in requests:
            ahead_s += each.prefill_left_s
            if each.first_token is None:
                self._first_seen.setdefault(each.request_id, (now, ahead_s))
                expected[each.request_id] = ahead_s * self._factors[each.reactive]
        self._first_seen = {name: seen for name, seen in self._first_seen.items() if name in expected}
        return expected

    def _learn(self, requests: Sequence[RequestStatus]) -> None:
        for each in requests:
            seen = self._first_seen.get(each.request_id)
            if each.first_token is None or seen is None or seen[1] < _LEAST_S:
                continue
            factor = min(_MOST, max(1.0, (each.first_token - seen[0]) / seen[1]))
            before = self._factors[each.reactive]
            self._factors[each.reactive] = before + _WEIGHT * (factor - before)
