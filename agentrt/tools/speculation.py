"""Early runs of tools and the cache that holds them: the futures cache of SpecTools, Algorithm 2."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any

from ..concurrency.clock import monotonic
from ..concurrency.threads import wait_for


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a speculation came to: ``usable``, with its ``value``, or not."""

    usable: bool
    value: Any = None


LOST = Outcome(usable=False)


def _never() -> str | None:
    return None


def _ignore(speculation: Speculation, reason: str) -> None:
    pass


class Speculation:
    """One early run of a tool, from its start until it is claimed or discarded. Thread-safe.

    A failed, cancelled or stale run is never handed out: :meth:`result` then says so, and the caller
    runs the tool for real. What is handed out is handed out once.
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
        outdated: Callable[[], str | None] = _never,
        on_wasted: Callable[[Speculation, str], None] = _ignore,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``key`` is the canonical key of the call; a result is good for ``ttl`` seconds.

        ``draft_s`` says when in its turn the draft came, in seconds from the turn's start (SpecTools' g),
        and ``predictor`` from whom; ``cost`` is what a run of the tool costs.
        ``needs_loop`` says that the run proceeds on an event loop, so that no thread may block on it.
        ``outdated`` says why a result can no longer be used, once that is so. ``on_wasted`` is told
        once, with the reason, that the run was given up.
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
        self._outdated = outdated
        self._on_wasted = on_wasted
        self._clock = clock
        self._started_at = clock()
        self._ended_at: float | None = None
        self._future: Future[Any] = Future()
        self._claimed = False
        self._dropped = False
        self._settled: Future[None] = Future()
        self._lock = threading.RLock()  # whoever waits is called back under it
        self._on_expected: Callable[[], None] | None = None
        self._expected = False

    # The running side.

    def finish(self, value: Any) -> bool:
        """Complete the run; False, and without effect, if it was cancelled meanwhile."""
        return self._end("", lambda: self._future.set_result(value))

    def fail(self, error: BaseException) -> None:
        """Record that the tool raised; without effect if the run was cancelled meanwhile."""
        reason = f"the speculation failed with {type(error).__name__}"
        if self._end(reason, lambda: self._future.set_exception(error)):
            self._settle()

    def _settle(self) -> None:
        with self._lock:
            if not self._settled.done():
                self._settled.set_result(None)

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

    async def settled(self) -> Outcome:
        """Wait until the run is claimed or given up; return what it left behind and nobody will claim."""
        await wait_for(self._settled)
        if self._claimed or self._future.cancelled() or self._future.exception() is not None:
            return LOST
        return Outcome(True, self._future.result())

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
        outdated = self._outdated()
        if outdated is not None:
            self.lost_because = outdated
            return False
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

    def peek(self) -> Outcome:
        """What a finished run has come to, without claiming it."""
        return Outcome(True, self._future.result()) if self._future.done() and self.usable else LOST

    def cancel(self, reason: str) -> bool:
        """Stop waiting for the run, for good; False if it is over already.

        A coroutine is cancelled by whoever watches it. A thread cannot be stopped: it runs to its end,
        counted against its tool's ``max_concurrency`` until then, and what it returns is dropped.
        """
        cancelled = self._end(reason, self._future.cancel)
        if cancelled:
            self._settle()
        return cancelled

    def drop(self, reason: str) -> None:
        """Give the run up, running or finished: nobody will claim it. Without effect once it is claimed."""
        with self._lock:
            if self._claimed or self._dropped:
                return
            self._dropped = True
            self.lost_because = self.lost_because or reason
        self.cancel(reason)
        self._settle()
        self._on_wasted(self, self.lost_because)

    def result(self) -> Outcome:
        """Wait for the run, blocking this thread, and claim it. Interrupting the wait drops the run."""
        try:
            self._future.exception()
        except CancelledError:
            return LOST
        except BaseException:
            self.drop("the wait for it was cancelled")
            raise
        return self._claim()

    async def aresult(self) -> Outcome:
        """Wait for the run without blocking the loop, and claim it. Cancelling the wait drops the run."""
        try:
            await wait_for(self._future)
        except BaseException:
            self.drop("the wait for it was cancelled")
            raise
        return self._claim()

    def _claim(self) -> Outcome:
        with self._lock:
            if self._claimed or self._dropped or not self.usable:
                return LOST
            self._claimed = True
            self._settle()
        return Outcome(True, self._future.result())


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

    def close(self, reason: str) -> None:
        """Refuse additions from now on, and drop what was not taken for ``reason``."""
        with self._lock:
            self._closed = True
            losers = list(self._entries.values())
            self._entries.clear()
        for speculation in losers:
            speculation.drop(reason)
