"""Speculations and the futures cache: bounded, single-flight, never handing out a lost run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.tools.speculation import FuturesCache, Speculation

TTL = 10.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def speculation(key: str = "k", clock: Clock | None = None) -> Speculation:
    return Speculation("tool", key, ttl=TTL, clock=clock or Clock())


def test_a_finished_run_hands_out_its_value() -> None:
    run = speculation()
    run.finish({"a": 1})
    outcome = run.result()
    assert outcome.usable
    assert outcome.value == {"a": 1}
    assert not run.result().usable  # once


def test_none_is_a_value() -> None:
    run = speculation()
    run.finish(None)
    assert run.result().usable


def test_a_failed_run_is_lost_and_says_why() -> None:
    run = speculation()
    run.fail(ValueError("secret"))
    assert not run.usable
    assert not run.result().usable
    assert run.lost_because == "the speculation failed with ValueError"


def test_a_cancelled_run_is_lost_and_its_value_dropped() -> None:
    run = speculation()
    assert run.cancel("not wanted")
    run.finish(1)
    assert not run.result().usable
    assert run.lost_because == "not wanted"


def test_a_run_that_is_over_cannot_be_cancelled() -> None:
    run = speculation()
    run.finish(1)
    assert not run.cancel("too late")
    assert run.result().value == 1


def test_a_result_spoils() -> None:
    clock = Clock()
    run = speculation(clock=clock)
    clock.now = 100.0  # a long run does not age while it runs
    run.finish(1)
    clock.now += TTL
    assert run.usable
    clock.now += 0.1
    assert not run.usable
    assert not run.result().usable
    assert run.lost_because == "the result was too old"


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
    run, told = speculation(), list[str]()

    def listen() -> None:
        run.when_expected(lambda: told.append("expected"))
        run.when_over(lambda: told.append("over"))

    def tell() -> None:
        run.expect()
        run.cancel("x")

    for step in (listen, tell) if listening_first else (tell, listen):
        step()
    assert told == ["expected", "over"]


def test_a_thread_waits_for_the_run() -> None:
    run = speculation()
    outcomes = []
    waiting = threading.Thread(target=lambda: outcomes.append(run.result()))
    waiting.start()
    run.finish(7)
    waiting.join()
    assert outcomes[0].value == 7


def test_a_task_waits_for_a_run_that_a_thread_finishes() -> None:
    async def main() -> Any:
        run = speculation()
        asking = asyncio.create_task(run.aresult())
        await asyncio.sleep(0)
        threading.Thread(target=run.finish, args=(7,)).start()
        return await asking

    assert asyncio.run(main()).value == 7


def test_cancelling_the_wait_cancels_the_run() -> None:
    async def main() -> Speculation:
        run = speculation()
        asking = asyncio.create_task(run.aresult())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return run

    assert asyncio.run(main()).lost_because == "the wait for it was cancelled"


def test_a_run_that_is_given_up_is_wasted_once_and_leaves_what_it_prepared() -> None:
    wasted: list[str] = []

    async def main() -> None:
        run = Speculation("tool", "k", ttl=TTL, on_wasted=lambda _, reason: wasted.append(reason))
        run.finish("prepared")
        run.drop("not wanted")
        run.drop("again")
        assert (await run.settled()).value == "prepared"
        assert not (await run.aresult()).usable

    asyncio.run(main())
    assert wasted == ["not wanted"]


def test_a_claimed_run_cannot_be_given_up_and_leaves_nothing() -> None:
    wasted: list[str] = []

    async def main() -> None:
        run = Speculation("tool", "k", ttl=TTL, on_wasted=lambda _, reason: wasted.append(reason))
        run.finish("prepared")
        assert (await run.aresult()).usable
        run.drop("too late")
        assert not (await run.settled()).usable

    asyncio.run(main())
    assert wasted == []


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
            assert self.closed or run is None or run in self.handed_out or not run.usable
            assert self.cache.why_missing(key) or self.closed
        else:
            assert taken is self.added[key]
            assert taken.usable
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
