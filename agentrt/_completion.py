"""Run several coroutines and take their results as they come."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

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
