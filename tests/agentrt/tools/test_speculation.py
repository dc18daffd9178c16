"""Speculations and the futures cache: handed out once, never a lost run, bounded, single-flight."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.tools.speculation import Draft, Outcome, Speculation, SpeculationState
from agentrt.turns.speculations import FuturesCache
from tests.agentrt.loops import on_a_loop

TTL = 10.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def speculation(key: str = "k", clock: Clock | None = None) -> Speculation:
    return Speculation(Draft("tool", key), ttl=TTL, clock=clock or Clock())


def test_none_is_a_value() -> None:
    run = speculation()
    run.finish(None)
    assert run.result().usable


def test_a_result_spoils() -> None:
    clock = Clock()
    run = speculation(clock=clock)
    clock.now = 100.0  # a long run does not age while it runs
    run.finish(1)
    clock.now += TTL
    assert run.why_unusable() is None
    clock.now += 0.1
    assert run.why_unusable() == "the result was too old"
    assert not run.result().usable


def test_seconds_stop_with_the_run() -> None:
    clock = Clock()
    run = speculation(clock=clock)
    clock.now = 3.0
    assert run.seconds == 3.0
    run.finish(1)
    clock.now = 9.0
    assert run.seconds == 3.0


@pytest.mark.parametrize("listening_first", [True, False])
def test_the_runner_learns_that_its_run_is_expected_or_over(listening_first: bool) -> None:
    run, events = speculation(), list[str]()

    def listen() -> None:
        run.when_expected(lambda: events.append("expected"))
        run.when_over(lambda: events.append("over"))

    def tell() -> None:
        run.expect()
        run.cancel("x")

    for step in (listen, tell) if listening_first else (tell, listen):
        step()
    assert events == ["expected", "over"]


@on_a_loop
async def test_a_task_waits_for_a_run_that_a_thread_finishes() -> None:
    run = speculation()
    claiming = asyncio.create_task(run.aresult())
    await asyncio.sleep(0)
    threading.Thread(target=run.finish, args=(7,)).start()
    assert (await claiming).value == 7


@on_a_loop
async def test_cancelling_the_wait_cancels_the_run() -> None:
    run = speculation()
    claiming = asyncio.create_task(run.aresult())
    await asyncio.sleep(0)
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert run.lost_because == "the wait for it was cancelled"


STATES = SpeculationState
NEXT = {
    STATES.RUNNING: {STATES.FINISHED, STATES.LOST, STATES.DROPPED},
    STATES.FINISHED: {STATES.CLAIMED, STATES.DROPPED},
    STATES.LOST: {STATES.DROPPED},
    STATES.CLAIMED: set(),
    STATES.DROPPED: set(),
}


class LifeCycle(RuleBasedStateMachine):
    """Random use of one speculation against the life cycle that its states draw."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.is_outdated = self.finished = False
        self.wasted: list[str] = []
        self.claims: list[Any] = []
        self.over = self.expected = 0
        self.run = Speculation(
            Draft("tool", "k"),
            ttl=TTL,
            outdated=lambda: "written meanwhile" if self.is_outdated else None,
            on_wasted=lambda _, reason: self.wasted.append(reason),
            clock=self.clock,
        )
        self.run.when_over(lambda: setattr(self, "over", self.over + 1))
        self.run.when_expected(lambda: setattr(self, "expected", self.expected + 1))
        self.before = self.run.state

    @rule()
    def finish(self) -> None:
        running = self.run.state is STATES.RUNNING
        assert self.run.finish("value") == running
        self.finished |= running

    @rule()
    def fail(self) -> None:
        self.run.fail(OSError())

    @rule()
    def cancel(self) -> None:
        running = self.run.state is STATES.RUNNING
        assert self.run.cancel("cancelled") == running

    @rule()
    def drop(self) -> None:
        self.run.drop("dropped")
        assert self.run.state in (STATES.CLAIMED, STATES.DROPPED)

    @rule()
    def claim(self) -> None:
        if not self.run.done:
            return
        could = self.run.state is STATES.FINISHED and self.run.why_unusable() is None
        outcome = self.run.result()
        assert outcome.usable == could
        if could:
            self.claims.append(outcome.value)

    @rule()
    def expect(self) -> None:
        self.run.expect()

    @rule(seconds=st.floats(0, TTL))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def outdate(self) -> None:
        self.is_outdated = True

    @invariant()
    def the_state_changes_as_drawn(self) -> None:
        now = self.run.state
        assert now is self.before or now in NEXT[self.before]
        self.before = now

    @invariant()
    def what_it_reports_follows_from_its_state(self) -> None:
        state = self.run.state
        assert self.run.done == (state is not STATES.RUNNING)
        assert self.over == self.run.done
        assert self.expected <= 1
        assert self.claims == (["value"] if state is STATES.CLAIMED else [])
        assert len(self.wasted) == (state is STATES.DROPPED)
        if state in (STATES.LOST, STATES.CLAIMED, STATES.DROPPED):
            left = asyncio.run(self.run.settled())
            assert left.usable == (state is STATES.DROPPED and self.finished)


TestLifeCycle = LifeCycle.TestCase


@pytest.mark.parametrize("_", range(20))
def test_of_many_threads_one_gets_the_result_or_it_is_wasted_once(_: int) -> None:
    wasted: list[str] = []
    outcomes: list[Outcome] = []
    run = Speculation(Draft("tool", "k"), ttl=TTL, on_wasted=lambda _, reason: wasted.append(reason))
    start = threading.Barrier(9)

    def claim() -> None:
        start.wait()
        outcomes.append(run.result())

    def drop() -> None:
        start.wait()
        run.drop("not wanted")

    threads = [threading.Thread(target=work) for work in [claim] * 4 + [drop] * 4]
    for thread in threads:
        thread.start()
    start.wait()
    run.finish("value")
    for thread in threads:
        thread.join()
    assert sum(outcome.usable for outcome in outcomes) + len(wasted) == 1


class CacheMachine(RuleBasedStateMachine):
    """Random use of a cache against what it promises."""

    BOUND = 3
    keys = st.sampled_from("abcde")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.cache = FuturesCache(self.BOUND)
        self.added: dict[str, Speculation] = {}
        self.handed_out: list[Speculation] = []
        self.closed = False

    @rule(key=keys)
    def add(self, key: str) -> None:
        fits = not self.closed and key not in self.added and len(self.added) < self.BOUND
        new = speculation(key, self.clock)
        assert self.cache.add(new) == fits
        if fits:
            self.added[key] = new

    @rule(key=keys, how=st.sampled_from(["finish", "fail", "cancel"]))
    def end(self, key: str, how: str) -> None:
        if key in self.added:
            run = self.added[key]
            {"finish": run.finish, "fail": lambda _: run.fail(OSError()), "cancel": run.cancel}[how]("x")

    @rule(key=keys)
    def take(self, key: str) -> None:
        taken = self.cache.take(key)
        if taken is None:
            run = self.added.get(key)
            assert self.closed or run is None or run in self.handed_out or run.why_unusable()
            assert self.cache.why_missing(key) or self.closed
        else:
            assert taken is self.added[key]
            assert taken.why_unusable() is None
            assert taken not in self.handed_out
            self.handed_out.append(taken)

    @rule(seconds=st.floats(0, 2 * TTL))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def close(self) -> None:
        self.cache.close("loser")
        for run in self.added.values():
            assert run in self.handed_out or (run.done and not run.result().usable)
        self.closed = True

    @invariant()
    def each_key_is_known_once(self) -> None:
        assert all(key in self.cache for key in self.added)


TestCache = CacheMachine.TestCase


def test_one_key_enters_once_however_many_threads_try() -> None:
    cache = FuturesCache(100)
    start = threading.Barrier(8)
    accepted = []

    def add() -> None:
        start.wait()
        accepted.append(cache.add(speculation("k")))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(accepted) == [False] * 7 + [True]
