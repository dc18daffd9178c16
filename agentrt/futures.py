"""Early runs of tools and the cache that holds them: the futures cache of SpecTools, Algorithm 2."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

from ._threads import wait_for


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a speculation came to: ``usable``, with its ``value``, or not."""

    usable: bool
    value: Any = None


_LOST = Outcome(usable=False)


class Speculation:
    """One early run of a tool, from its start until it is claimed or discarded. Thread-safe.

    A failed, cancelled or stale run is never handed out: :meth:`result` then says so, and the caller
    runs the tool for real.
    """

    def __init__(
        self,
        tool: str,
        key: str,
        *,
        ttl: float,
        draft_s: float = 0.0,
        predictor: str = "",
        cost: float = 0.0,
        needs_loop: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``key`` is the canonical key of the call; a result is good for ``ttl`` seconds.

        ``draft_s`` says when in its turn the draft came, in seconds from the turn's start (SpecTools' g),
        and ``predictor`` from whom; ``cost`` is what a run of the tool costs.
        ``needs_loop`` says that the run proceeds on an event loop, so that no thread may block on it.
        """
        self.tool = tool
        self.key = key
        self.draft_s = draft_s
        self.predictor = predictor
        self.cost = cost
        self.needs_loop = needs_loop
        self.lost_because = ""
        """Why the run cannot be used, once that is so."""
        self._ttl = ttl
        self._clock = clock
        self._started_at = clock()
        self._ended_at: float | None = None
        self._future: Future[Any] = Future()
        self._lock = threading.RLock()  # whoever waits is called back under it
        self._on_expected: Callable[[], None] | None = None
        self._expected = False

    # The running side.

    def finish(self, value: Any) -> None:
        """Complete the run; without effect if it was cancelled meanwhile."""
        self._end("", lambda: self._future.set_result(value))

    def fail(self, error: BaseException) -> None:
        """Record that the tool raised; without effect if the run was cancelled meanwhile."""
        reason = f"the early run failed with {type(error).__name__}"
        self._end(reason, lambda: self._future.set_exception(error))

    def _end(self, lost_because: str, resolve: Callable[[], object]) -> bool:
        with self._lock:
            if self._future.done():
                return False
            self._ended_at = self._clock()
            self.lost_because = lost_because
            resolve()
        return True

    def when_over(self, callback: Callable[[], None]) -> None:
        """Call back once the run is over, in whichever way and thread; at once if it is."""
        self._future.add_done_callback(lambda _: callback())

    def when_expected(self, callback: Callable[[], None]) -> None:
        """Call back once the run is :meth:`expect`-ed, in whichever thread; at once if it is."""
        with self._lock:
            self._on_expected = callback
            expected = self._expected
        if expected:
            callback()

    async def over(self) -> None:
        """Wait until the run is over, in whichever way."""
        await wait_for(self._future)

    # The claiming side.

    @property
    def done(self) -> bool:
        """Whether the run is over, in whichever way."""
        return self._future.done()

    @property
    def seconds(self) -> float:
        """How long the tool has been running, or has run."""
        return (self._clock() if self._ended_at is None else self._ended_at) - self._started_at

    @property
    def usable(self) -> bool:
        """Whether a claim can still succeed: running, or finished well and fresh."""
        if not self._future.done():
            return True
        if self._future.cancelled() or self._future.exception() is not None:
            return False
        if self._ended_at is not None and self._clock() - self._ended_at > self._ttl:
            self.lost_because = "the result was too old"
            return False
        return True

    def expect(self) -> None:
        """Say that the model has really asked for this call: the run's own timeout no longer applies."""
        with self._lock:
            self._expected = True
            callback = self._on_expected
        if callback is not None:
            callback()

    def cancel(self, reason: str) -> bool:
        """Drop the run and its result, and stop it if it can be stopped; False if it was already over.

        A coroutine is cancelled. A function that runs in a thread cannot be: it runs to its end there,
        counted against its tool's ``max_concurrency`` until then, and what it returns is dropped.
        """
        return self._end(reason, self._future.cancel)

    def result(self) -> Outcome:
        """Wait for the run, blocking this thread. Interrupting the wait cancels the run."""
        try:
            self._future.exception()
        except CancelledError:
            return _LOST
        except BaseException:
            self.cancel("the wait for it was cancelled")
            raise
        return self._outcome()

    async def aresult(self) -> Outcome:
        """Wait for the run without blocking the loop. Cancelling the wait cancels the run."""
        try:
            await wait_for(self._future)
        except BaseException:
            self.cancel("the wait for it was cancelled")
            raise
        return self._outcome()

    def _outcome(self) -> Outcome:
        return Outcome(True, self._future.result()) if self.usable else _LOST


class FuturesCache:
    """The speculations of one turn by canonical key. Thread-safe.

    Bounded and single-flight: one key runs once, and at most ``max_entries`` keys run. Each speculation
    is handed out at most once. After :meth:`close` nothing can be added.
    """

    def __init__(self, max_entries: int) -> None:
        """The cache is open and empty."""
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: dict[str, Speculation] = {}
        self._opened: set[str] = set()
        self._closed = False

    def __contains__(self, key: str) -> bool:
        """Whether this key has been added, even if its speculation was taken meanwhile."""
        with self._lock:
            return key in self._opened

    @property
    def closed(self) -> bool:
        """Whether the turn is over for new speculations."""
        return self._closed

    def add(self, speculation: Speculation) -> bool:
        """Take ``speculation`` in; False if its key is there already, or the cache is full or closed."""
        with self._lock:
            if self._closed or speculation.key in self._opened or len(self._opened) >= self._max_entries:
                return False
            self._opened.add(speculation.key)
            self._entries[speculation.key] = speculation
            return True

    def take(self, key: str) -> Speculation | None:
        """Remove and return the speculation of ``key`` if it is usable."""
        with self._lock:
            speculation = self._entries.get(key)
            if speculation is None or not speculation.usable:
                return None
            del self._entries[key]
            return speculation

    def why_missing(self, key: str) -> str:
        """Say why :meth:`take` gave nothing for ``key``."""
        with self._lock:
            speculation = self._entries.get(key)
        if speculation is not None:
            return speculation.lost_because
        return "taken by an equal call" if key in self else "not predicted"

    def close(self, reason: str) -> list[Speculation]:
        """Refuse additions from now on, cancel what was not taken for ``reason``, and return it."""
        with self._lock:
            self._closed = True
            losers = list(self._entries.values())
            self._entries.clear()
        for speculation in losers:
            speculation.cancel(reason)
        return losers
