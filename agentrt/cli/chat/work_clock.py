"""A clock of the time that answers take, without the time that the user takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .approval import WhyNot


class WorkClock:
    """Returns seconds, as :func:`time.perf_counter` does, but stands still while the user is asked."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        """``now`` is the clock that does not stand still."""
        self._now = now
        self._questions = 0
        self._asked_since = 0.0
        self._waited_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return (self._asked_since if self._questions else self._now()) - self._waited_s

    def stopped_by(self, why_not: WhyNot) -> WhyNot:
        """Return ``why_not`` as one that stops this clock until it has answered."""

        async def ask(call: str) -> str | None:
            if not self._questions:
                self._asked_since = self._now()
            self._questions += 1
            try:
                return await why_not(call)
            finally:
                self._questions -= 1
                if not self._questions:
                    self._waited_s += self._now() - self._asked_since

        return ask
