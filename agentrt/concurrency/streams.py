"""Take results as they come: of several coroutines, or from another thread or loop."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, closing, suppress
from typing import TypeVar

import anyio

from .threads import loop_caller, start_in_thread

T = TypeVar("T")


async def interleaved(
    sources: Sequence[Callable[[], AsyncIterator[T]]],
) -> AsyncGenerator[tuple[int, T], None]:
    """Iterate over all ``sources`` at once; yield (index of the source, item) when the item is there.

    One that raises does not disturb the others; the first error is raised once all have ended. Leaving the
    iteration, or cancelling the consumer while it waits, cancels those that still run.
    """
    send, receive = anyio.create_memory_object_stream[tuple[int, T]](math.inf)
    errors: list[Exception] = []

    async def run(index: int, source: Callable[[], AsyncIterator[T]]) -> None:
        try:
            async for item in source():
                send.send_nowait((index, item))
        except Exception as error:  # noqa: BLE001 - raised below, when the others have ended
            errors.append(error)

    async def run_all() -> None:
        with send:
            async with anyio.create_task_group() as each:
                for index, source in enumerate(sources):
                    each.start_soon(run, index, source)

    async with anyio.create_task_group() as group:
        group.start_soon(run_all)
        try:
            with receive:
                async for item in receive:
                    yield item
        except GeneratorExit:  # raised again from inside, the group would wrap it
            errors.clear()
            group.cancel_scope.cancel()
            return
    if errors:
        raise errors[0]


async def as_completed(functions: Sequence[Callable[[], Awaitable[T]]]) -> AsyncGenerator[T, None]:
    """Await all ``functions`` at once and yield each result when it is there; see :func:`interleaved`."""

    async def result_of(function: Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
        yield await function()

    results = interleaved([functools.partial(result_of, function) for function in functions])
    async with aclosing(results):
        async for _, result in results:
            yield result


async def produced_elsewhere(start: Callable[[Callable[[T], None]], Future[None]]) -> AsyncGenerator[T, None]:
    """Yield what a producer in another thread or loop puts out, and raise what it ends with.

    ``start(put)`` starts it and returns the future of its end; ``put`` may be called from anywhere, and
    does nothing once nobody takes. Leaving the iteration cancels the future if it can be cancelled.
    """
    send, receive = anyio.create_memory_object_stream[T](math.inf)
    call_soon = loop_caller()

    def deliver(item: T) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            send.send_nowait(item)

    ended = start(lambda item: call_soon(lambda: deliver(item)))
    ended.add_done_callback(lambda _: call_soon(send.close))
    try:
        with receive:
            async for item in receive:
                yield item
    finally:
        send.close()
        ended.cancel()
    ended.result()


async def produced_in_thread(
    make: Callable[[], Generator[T, None, None]], *, name: str
) -> AsyncGenerator[T, None]:
    """Yield what a blocking generator yields, made and run in a thread of its own.

    A thread cannot be stopped: once nobody takes any more, the generator is closed when it yields next.
    """
    left = threading.Event()

    def start(put: Callable[[T], None]) -> Future[None]:
        def work() -> None:
            with closing(make()) as items:
                for item in items:
                    if left.is_set():
                        return
                    put(item)

        return start_in_thread(work, name=name)

    try:
        async with aclosing(produced_elsewhere(start)) as items:
            async for item in items:
                yield item
    finally:
        left.set()
