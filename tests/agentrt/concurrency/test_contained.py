"""Errors in a speculation end only that, but for a Ctrl-C of the user and a cancellation of its task."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NoReturn

import pytest

from agentrt.concurrency.contained import contained
from agentrt.concurrency.hosts import WorkerLoopHost
from agentrt.concurrency.merge import merge
from agentrt.errors import SpeculationError


async def outcome_of(work: Callable[[], Awaitable[object]]) -> list[BaseException]:
    failures: list[BaseException] = []
    with contained(failures.append):
        await work()
    return failures


async def raised() -> None:
    raise KeyboardInterrupt


async def raised_in_a_thread() -> None:
    def work() -> None:
        raise KeyboardInterrupt

    await asyncio.to_thread(work)


async def of_a_future() -> None:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, KeyboardInterrupt())
    await future


async def of_a_future_that_is_done() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_exception(KeyboardInterrupt())
    await future


@pytest.mark.parametrize("work", [raised, raised_in_a_thread, of_a_future, of_a_future_that_is_done])
def test_a_keyboard_interrupt_of_the_code_itself_is_its_failure(work: Callable[[], Awaitable[None]]) -> None:
    (failure,) = asyncio.run(outcome_of(work))
    assert isinstance(failure, KeyboardInterrupt)


def interrupt(*args: object) -> NoReturn:
    raise KeyboardInterrupt


class Handler:
    def handle(self, *args: object) -> None:
        interrupt()

    def __call__(self, *args: object) -> None:
        interrupt()


@pytest.fixture(
    params=[
        signal.default_int_handler, interrupt, Handler().handle, functools.partial(interrupt, 1), Handler(),
    ]
)  # fmt: skip
def handler(request: pytest.FixtureRequest) -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, previous)


async def interrupted_in_a_call() -> None:
    signal.raise_signal(signal.SIGINT)


async def interrupted_in_a_loop() -> None:
    asyncio.get_running_loop().run_in_executor(None, signal.pthread_kill, MAIN, signal.SIGINT)
    while True:
        pass


MAIN = threading.main_thread().ident or 0


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("work", [interrupted_in_a_call, interrupted_in_a_loop])
def test_a_ctrl_c_goes_on(work: Callable[[], Awaitable[None]]) -> None:
    loop = asyncio.new_event_loop()  # asyncio.run() has a handler of its own
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(outcome_of(work))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_a_cancellation_of_the_task_goes_on() -> None:
    async def main() -> None:
        task = asyncio.create_task(outcome_of(lambda: asyncio.sleep(100)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_stream_that_would_end_the_loop_fails_alone() -> None:
    async def broken() -> AsyncIterator[int]:
        raise SystemExit
        yield 0

    async def items() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        yield 1

    async def main() -> list[tuple[int, int]]:
        merged = []

        async def read() -> None:
            async for item in merge([broken(), items()], errors_last=True):
                merged.append(item)

        with pytest.raises(SystemExit):
            await read()
        return merged

    assert asyncio.run(main()) == [(1, 1)]


def test_the_worker_loop_survives_what_would_end_it() -> None:
    async def end() -> None:
        raise SystemExit

    async def answer() -> Any:
        return 42

    host = WorkerLoopHost()
    with pytest.raises(SpeculationError, match="SystemExit"):
        host.run(end()).result(20)
    assert host.run(answer()).result(20) == 42
