from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest

from agentrt.concurrency.fair_threads import Cancellation, FairThreads

VARIABLE = contextvars.ContextVar("VARIABLE", default="")


class Held:
    """Functions that report their start and wait until they may end."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.go = threading.Event()
        self._begun = threading.Semaphore(0)

    def __call__(self, name: str) -> Callable[[Cancellation], str]:
        def work(_: Cancellation) -> str:
            self.started.append(name)
            self._begun.release()
            assert self.go.wait(30)
            return name

        return work

    async def begun(self, count: int) -> None:
        """Wait until ``count`` more functions have begun."""
        for _ in range(count):
            assert await asyncio.to_thread(self._begun.acquire, timeout=30)


def on_a_loop(test: Callable[[Held], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that runs on an event loop, and after which held functions may end."""

    @functools.wraps(test)
    def run() -> None:
        async def main() -> None:
            held = Held()
            try:
                await test(held)
            finally:
                held.go.set()

        asyncio.run(main())

    del run.__wrapped__  # type: ignore[attr-defined]  # pytest would take `held` for a fixture
    return run


@on_a_loop
async def test_an_app_never_has_all_threads(held: Held) -> None:
    threads = FairThreads("test", threads=3, per_app=2)
    greedy = [asyncio.create_task(threads.run("greedy", held(f"greedy {n}"))) for n in range(5)]
    await held.begun(2)
    other = asyncio.create_task(threads.run("other", held("other")))
    await held.begun(1)
    assert [*sorted(held.started[:2]), *held.started[2:]] == ["greedy 0", "greedy 1", "other"]
    held.go.set()
    assert await other == "other"
    assert await asyncio.gather(*greedy) == [f"greedy {n}" for n in range(5)]


@on_a_loop
async def test_apps_take_turns_and_urgent_work_comes_first(held: Held) -> None:
    threads = FairThreads("test", threads=1, per_app=1)
    names = [("a", "a0"), ("a", "a1"), ("a", "a2"), ("b", "b0"), ("b", "b1")]
    tasks = [asyncio.create_task(threads.run(app, held(name), urgent=False)) for app, name in names]
    await held.begun(1)
    tasks.append(asyncio.create_task(threads.run("b", held("urgent"))))
    await asyncio.sleep(0)
    held.go.set()
    await asyncio.gather(*tasks)
    assert held.started == ["a0", "urgent", "a1", "b0", "a2", "b1"]


@on_a_loop
async def test_cancelled_work_does_not_start(held: Held) -> None:
    threads = FairThreads("test", threads=1, per_app=1)
    first = asyncio.create_task(threads.run("a", held("first")))
    await held.begun(1)
    second = asyncio.create_task(threads.run("a", held("second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    held.go.set()
    assert await first == "first"
    assert await threads.run("a", held("third")) == "third"
    assert held.started == ["first", "third"]


@on_a_loop
async def test_running_work_sees_that_it_is_cancelled(held: Held) -> None:
    threads = FairThreads("test", threads=1, per_app=1)
    begun, ended = threading.Event(), threading.Event()

    def work(cancellation: Cancellation) -> None:
        begun.set()
        try:
            while True:
                cancellation.check()
        except CancelledError:
            ended.set()
            raise

    task = asyncio.create_task(threads.run("a", work))
    assert await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 30)
    assert await threads.run("a", lambda _: "free again") == "free again"


@on_a_loop
async def test_errors_and_context_variables_pass(held: Held) -> None:
    threads = FairThreads("test", threads=1, per_app=1)
    VARIABLE.set("mine")
    assert await threads.run("a", lambda _: VARIABLE.get()) == "mine"

    def fail(_: Cancellation) -> Any:
        raise ValueError("reason")

    with pytest.raises(ValueError, match="reason"):
        await threads.run("a", fail)
    assert await threads.run("a", lambda _: 1) == 1


def test_several_event_loops_share_the_threads() -> None:
    threads = FairThreads("test", threads=2, per_app=1)
    results: list[int] = []

    async def work(number: int) -> None:
        results.extend(await asyncio.gather(*(threads.run("a", lambda _: number) for _ in range(20))))

    with ThreadPoolExecutor(4) as loops:
        list(loops.map(lambda number: asyncio.run(work(number)), range(4)))
    assert sorted(results) == sorted([0, 1, 2, 3] * 20)
