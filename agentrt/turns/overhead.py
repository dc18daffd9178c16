"""The CPU time of the SDK's own work in a turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any


class CpuMeter:
    """Adds up the CPU time of blocks and coroutines, in whatever threads they run. Thread-safe.

    It counts the time of threads, not the clock's, so that neither waiting nor other programs count.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        """Create a meter at zero; ``clock`` returns the CPU seconds of the thread that calls it."""
        self._clock = clock
        self._lock = threading.Lock()
        self.seconds = 0.0
        """The CPU time so far."""

    def running(self) -> AbstractContextManager[None]:
        """Measure a block that does not await."""
        return _Running(self)

    def now(self) -> float:
        """Return the CPU seconds of this thread."""
        return self._clock()

    def add(self, seconds: float) -> None:
        """Add CPU time."""
        with self._lock:
            self.seconds += seconds

    async def measured(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Run a coroutine function and measure each step."""
        await _Steps(function(*args), self)


class _Running(AbstractContextManager[None]):
    """A block of one thread, measured. A class, because each turn enters several."""

    __slots__ = ("_meter", "_started")

    def __init__(self, meter: CpuMeter) -> None:
        self._meter = meter
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = self._meter.now()

    def __exit__(self, *error: object) -> None:
        self._meter.add(self._meter.now() - self._started)


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
