"""A circuit breaker for a service that requests can do without."""

from __future__ import annotations

import time
from collections.abc import Callable


class CircuitBreaker:
    """Opens after some failures in a row, and then lets one call through after each pause.

    A success closes it. The clock is :func:`time.monotonic` unless another one is given.
    """

    def __init__(self, failures: int, pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a closed one that opens after ``failures`` failures in a row."""
        self._most = failures
        self._pause_s = pause_s
        self._clock = clock
        self._failures = 0
        self._next_trial = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the last calls have failed."""
        return self._failures >= self._most

    def allows(self) -> bool:
        """Whether a call may be made now. The trial of an open breaker is that of one caller."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._next_trial:
            return False
        self._next_trial = now + self._pause_s
        return True

    def succeeded(self) -> None:
        """Count a success."""
        self._failures = 0

    def failed(self) -> None:
        """Count a failure."""
        self._failures += 1
        if self._failures == self._most:
            self._next_trial = self._clock() + self._pause_s
