"""Take results as they come: of several coroutines, or from another thread or loop."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import anyio

from ._threads import loop_caller

T = TypeVar("T")


async def as_completed(functions: Sequence[Callable[[], Awaitable[T]]]) -> AsyncIterator[T]:
    """Await all ``functions`` at once and yield each result when it is there.

    One that raises does not disturb the others; the first error is raised once all have ended.
    Cancelling the consumer while it waits cancels those that still run.
    """
    send, receive = anyio.create_memory_object_stream[T](math.inf)
    errors: list[Exception] = []

    async def run(function: Callable[[], Awaitable[T]]) -> None:
        try:
            send.send_nowait(await function())
        except Exception as error:  # noqa: BLE001 - raised below, when the others have ended
            errors.append(error)

    async def run_all() -> None:
        with send:
            async with anyio.create_task_group() as each:
                for function in functions:
                    each.start_soon(run, function)

    async with anyio.create_task_group() as group:
        group.start_soon(run_all)
        with receive:
            async for result in receive:
                yield result
    if errors:
        raise errors[0]


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
