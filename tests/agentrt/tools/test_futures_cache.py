"""The futures cache: bounded, single-flight, never handing out a lost run."""

from __future__ import annotations

import threading

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.tools.speculation import Speculation
from agentrt.turns.speculations import FuturesCache
from tests.agentrt.tools.test_speculation import TTL, Clock, speculation


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
