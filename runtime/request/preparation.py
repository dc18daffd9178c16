"""The limits of the work on a request before the engine has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from agentrt.concurrency.fair_threads import Cancellation
from agentrt.errors import DeadlineExceededError, InvalidRequestError

_LIMIT_S: Final = 10.0
"""CPU time. Rendering and tokenizing 128k tokens takes about a hundredth of it."""


class Preparation:
    """One request's rendering, tokenization and grammar: it can be cancelled, and its time is limited.

    For the thread that creates it.
    """

    def __init__(
        self,
        cancellation: Cancellation | None = None,
        *,
        arrived: float | None = None,
        context_tokens: int | None = None,
        limit_s: float = _LIMIT_S,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """``arrived`` is when the request was made, on the clock of :meth:`Platform.now`; None is now.

        ``context_tokens`` are what the context that the request continues may have; None for as many as the
        model takes. ``clock`` returns the CPU time of this thread in seconds.
        """
        self._cancellation = cancellation
        self.arrived = time.perf_counter() if arrived is None else arrived
        self.deadline_s: float | None = None
        """Seconds after :attr:`arrived` at which the work ends; None for no limit."""
        self.context_tokens = context_tokens
        self._limit_s = limit_s
        self._clock = clock
        self._began = clock()

    def check(self) -> None:
        """Return if the work may go on. Call it between steps.

        Raises:
            InvalidRequestError: the request takes too much CPU time to prepare.
            DeadlineExceededError: its deadline has passed.
            concurrent.futures.CancelledError: the request is not wanted any more.
        """
        if self._cancellation is not None:
            self._cancellation.check()
        if self.deadline_s is not None and time.perf_counter() >= self.arrived + self.deadline_s:
            raise unprepared()
        if self._clock() - self._began > self._limit_s:
            raise InvalidRequestError(
                "messages",
                f"the request takes more than {self._limit_s:g} s to prepare. Send a shorter prompt, or "
                "fewer and simpler tools.",
            )


def unprepared() -> DeadlineExceededError:
    """Return the error of a request whose deadline passed before the engine had it."""
    return DeadlineExceededError(
        "the deadline of a request passed while its prompt was prepared, or waited for that. Allow more "
        "time, or send shorter prompts or fewer of them at once."
    )
