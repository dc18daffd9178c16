"""The limits of the work on a request before the engine has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from agentrt.concurrency.fair_threads import Cancellation
from agentrt.errors import InvalidRequestError

_LIMIT_S: Final = 10.0
"""CPU time. Rendering and tokenizing 128k tokens takes about a hundredth of it."""


class Preparation:
    """One request's rendering, tokenization and grammar: it can be cancelled, and its CPU time is limited.

    For the thread that creates it.
    """

    def __init__(
        self,
        cancellation: Cancellation | None = None,
        *,
        limit_s: float = _LIMIT_S,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """``clock`` returns the CPU time of this thread in seconds."""
        self._cancellation = cancellation
        self._limit_s = limit_s
        self._clock = clock
        self._began = clock()

    def check(self) -> None:
        """Return if the work may go on. Call it between steps.

        Raises:
            InvalidRequestError: the request takes too much time to prepare.
            concurrent.futures.CancelledError: the request is not wanted any more.
        """
        if self._cancellation is not None:
            self._cancellation.check()
        if self._clock() - self._began > self._limit_s:
            raise InvalidRequestError(
                "messages",
                f"the request takes more than {self._limit_s:g} s to prepare. Send a shorter prompt, or "
                "fewer and simpler tools.",
            )
