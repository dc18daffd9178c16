"""The CPU time of the SDK's own work in a turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any


class CpuMeter:
    """Adds up the CPU time of blocks and coroutines, in whatever threads they run. Thread-safe.

    It counts the time of threads, not the clock's, so that neither waiting nor other programs count.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """Create a meter at zero; ``clock`` returns the CPU seconds of the thread that calls it."""
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """The CPU time so far."""
        return self._seconds

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure a block that does not await."""
        started = self._clock()
        try:
            yield
        finally:
            spent = self._clock() - started
            with self._lock:
                self._seconds += spent

    async def measured(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Run a coroutine function and measure each step."""
        await _Steps(function(*args), self)


class _Steps(Generator[Any, Any, None]):
    """The steps of a coroutine from one await to the next."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], meter: CpuMeter) -> None:
        self._coroutine = coroutine
        self._meter = meter

    def __await__(self) -> _Steps:
        return self

    def send(self, value: Any) -> Any:
        with self._meter.running():
            return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        with self._meter.running():
            return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()
