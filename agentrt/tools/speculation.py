"""A speculation: one speculative run of a tool, from its start until it is claimed or dropped."""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..concurrency.clock import monotonic
from ..concurrency.threads import wait_for
from ..errors import SpeculationError


@dataclass(frozen=True, slots=True)
class Draft:
    """A call of ``tool`` as ``predictor`` predicted it.

    ``key`` is the call's canonical key; ``draft_s`` is when the draft came, in seconds from the turn's start
    (SpecTools' g).
    """

    tool: str
    key: str
    predictor: str = ""
    draft_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a speculation: ``usable``, with its ``value``, or not, with the ``reason``."""

    usable: bool
    value: Any = None
    reason: str = ""


class SpeculationState(enum.Enum):
    """The life cycle of a speculation::

                    finish              claim
        RUNNING ──────────────▶ FINISHED ─────▶ CLAIMED
           │                       │
           ├── fail, cancel ▶ LOST │
           │                   │   │
           └────── drop ───────┴───┴──────────▶ DROPPED

    CLAIMED and DROPPED are final: a speculation is handed out at most once, and reported as wasted at most
    once. LOST has no result to hand out and is still to be dropped. A result that is too old or outdated
    stays FINISHED, but a claim of it fails.
    """

    RUNNING = "running"
    FINISHED = "finished"
    LOST = "lost"
    CLAIMED = "claimed"
    DROPPED = "dropped"


_FINAL = (SpeculationState.CLAIMED, SpeculationState.DROPPED)


_NONE: Any = object()
"""In place of the result of a run that has none."""
_numbers = itertools.count(1)


class Speculation:
    """One speculative run of a tool. Thread-safe; :class:`SpeculationState` draws its life cycle.

    A failed, cancelled, outdated or stale run is never handed out: :meth:`result` then returns an outcome
    that is not usable, and the caller runs the tool itself.
    """

    def __init__(
        self,
        draft: Draft,
        *,
        ttl: float,
        cost: float = 0.0,
        needs_loop: bool = False,
        known: object = None,
        discloses: bool = False,
        outdated: Callable[[], str | None] = lambda: None,
        on_wasted: Callable[[Speculation, str], None] = lambda speculation, reason: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``draft`` is the call that is run; its result can be claimed for ``ttl`` seconds.

        ``cost`` is the price of one run of the tool. ``needs_loop`` says that the run proceeds on an event
        loop, so that no thread may block on it. ``known`` is what the tool reads of its run, as in
        :class:`~agentrt.tools.speculable_tool.Invocation`. ``discloses`` says that it passes on values to
        where the user does not trust. ``outdated`` returns why the result may no longer be used, or None.
        ``on_wasted`` is called once, with the reason, when the speculation is dropped.
        """
        self.number = next(_numbers)
        """Its number in this process, from 1."""
        self.draft = draft
        self.cost = cost
        self.needs_loop = needs_loop
        self.known = known
        self.discloses = discloses
        self._ttl = ttl
        self._outdated = outdated
        self._on_wasted = on_wasted
        self._clock = clock
        self._started_at = clock()
        self._ended_at: float | None = None
        self._lock = threading.RLock()  # what follows is written under it; callbacks run under it, too
        self.state = SpeculationState.RUNNING
        """The present state; another thread may change it at any time."""
        self._value: Any = _NONE
        self.cancelled = False
        """Whether the run was ended without a result or an error."""
        self.lost_because = ""
        """Why the run has no result, or why it was dropped; empty if neither is so."""
        # Signals: what they wait for is in the fields above.
        self._over: Future[None] = Future()
        self._settled: Future[None] = Future()
        self._expected: Future[None] = Future()

    @property
    def remaining_s(self) -> float:
        """For how many more seconds a finished result can be claimed; all of them while the tool runs."""
        ended_at = self._ended_at
        return self._ttl if ended_at is None else self._ttl - (self._clock() - ended_at)

    # The running side.

    def finish(self, value: Any) -> bool:
        """Complete the run with its result; return False, without effect, if it is over already."""
        return self._end(SpeculationState.FINISHED, value=value)

    def fail(self, error: BaseException) -> None:
        """Record the tool's error; without effect if the run is over already."""
        # The text of any other error may hold secrets.
        why = f": {error}" if isinstance(error, SpeculationError) else f" with {type(error).__name__}"
        if self._end(SpeculationState.LOST, lost_because=f"the speculation failed{why}"):
            self._signal(self._settled)

    def _end(
        self,
        state: SpeculationState,
        *,
        value: Any = _NONE,
        lost_because: str = "",
        cancelled: bool = False,
    ) -> bool:
        """End the run in ``state``; return False, without effect, if it is over already."""
        with self._lock:
            if self._over.done():
                return False
            self._ended_at = self._clock()
            self.state, self._value = state, value
            self.lost_because, self.cancelled = lost_because, cancelled
            self._over.set_result(None)
        return True

    def _signal(self, future: Future[None]) -> None:
        with self._lock:
            if not future.done():
                future.set_result(None)

    def when_over(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the run is over, in the thread that ends it; at once if it is over."""
        self._over.add_done_callback(lambda _: callback())

    def when_expected(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when :meth:`expect` is called, in its thread; at once if it has been."""
        self._expected.add_done_callback(lambda _: callback())

    async def over(self) -> None:
        """Wait until the run is finished, failed or cancelled."""
        await wait_for(self._over)

    async def settled(self) -> Outcome:
        """Wait until the speculation is lost, claimed or dropped; return a result that was not claimed."""
        await wait_for(self._settled)
        if self.state is SpeculationState.CLAIMED or self._value is _NONE:
            return Outcome(False, reason=self.lost_because)
        return Outcome(True, self._value)

    # The claiming side.

    @property
    def done(self) -> bool:
        """Whether the run is finished, failed or cancelled."""
        return self._over.done()

    @property
    def seconds(self) -> float:
        """The run time of the tool so far, in seconds."""
        return (self._clock() if self._ended_at is None else self._ended_at) - self._started_at

    def why_unusable(self) -> str | None:
        """Return why the result cannot be used; None if it is fresh and not outdated, or the run goes on."""
        outdated = self._outdated()
        if outdated is not None or not self._over.done():
            return outdated
        if self._value is _NONE:
            return self.lost_because
        if self._ended_at is not None and self._clock() - self._ended_at > self._ttl:
            return "the result was too old"
        return None

    def expect(self) -> None:
        """Record that the model has made this call: the run's own timeout no longer applies."""
        self._signal(self._expected)

    def peek(self) -> Outcome:
        """Return a finished run's result without claiming it."""
        usable = self._over.done() and self.why_unusable() is None
        return Outcome(usable, self._value if usable else None)

    def cancel(self, reason: str) -> bool:
        """End the run without a result; return False, without effect, if it is over already.

        The watcher of a coroutine cancels its task. A thread cannot be stopped: the tool runs to its end,
        counts against its ``max_concurrency`` until then, and its result is dropped.
        """
        cancelled = self._end(SpeculationState.LOST, lost_because=reason, cancelled=True)
        if cancelled:
            self._signal(self._settled)
        return cancelled

    def drop(self, reason: str) -> None:
        """End the speculation unclaimed, running or finished. Without effect once it is claimed."""
        with self._lock:
            if self.state in _FINAL:
                return
            self._end(SpeculationState.DROPPED, lost_because=reason, cancelled=True)
            self.state = SpeculationState.DROPPED
            self.lost_because = self.lost_because or reason
        self._signal(self._settled)
        self._on_wasted(self, self.lost_because)

    def result(self) -> Outcome:
        """Wait for the run, blocking this thread, and claim it. Interrupting the wait drops it."""
        try:
            self._over.result()
        except BaseException:
            self.drop("the wait for it was cancelled")
            raise
        return self._claim()

    async def aresult(self) -> Outcome:
        """Wait for the run without blocking the loop, and claim it. Cancelling the wait drops it."""
        try:
            await wait_for(self._over)
        except BaseException:
            self.drop("the wait for it was cancelled")
            raise
        return self._claim()

    def _claim(self) -> Outcome:
        with self._lock:
            why = self.lost_because if self.state in _FINAL else self.why_unusable()
            if why is not None:
                return Outcome(False, reason=why)
            self.state = SpeculationState.CLAIMED
            self._signal(self._settled)
        return Outcome(True, self._value)
