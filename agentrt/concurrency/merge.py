"""One stream from several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, TypeVar

import anyio

from .contained import contained

T = TypeVar("T")


async def merge(
    streams: Sequence[AsyncIterator[T]], *, errors_last: bool = False
) -> AsyncGenerator[tuple[int, T], None]:
    """Yield the items of all ``streams`` as they come, each with the index of its stream.

    Each stream runs in a task of its own, a copy of this context, and is at most two items ahead of the
    consumer. The first error ends all streams and is raised; with ``errors_last`` the other streams go on,
    and the first error is raised after their last item. However the iteration ends, by an error, by leaving
    it or by cancelling the consumer, all streams are closed by then.
    """
    if len(streams) == 1:  # needs no task beside the consumer's
        async with _closing(streams[0]):
            async for item in streams[0]:
                yield 0, item
        return
    arrived: asyncio.Queue[tuple[int, T] | BaseException | None] = asyncio.Queue(maxsize=1)

    async def forward(index: int) -> None:
        end: BaseException | None = None

        def failed(error: BaseException) -> None:
            nonlocal end
            if not isinstance(error, asyncio.CancelledError):  # one that has cancelled itself only ends
                end = error

        with contained(failed):  # raised by the consumer
            async with _closing(streams[index]):
                async for item in streams[index]:
                    await arrived.put((index, item))
        await arrived.put(end)

    tasks = [asyncio.create_task(forward(index)) for index in range(len(streams))]
    first_error: BaseException | None = None
    try:
        for _ in tasks:
            while (got := await arrived.get()) is not None:
                if isinstance(got, tuple):
                    yield got
                    continue
                if not errors_last:
                    raise got
                first_error = first_error or got
                break
    finally:
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*tasks, return_exceptions=True)
    if first_error is not None:
        raise first_error


def _closing(stream: AsyncIterator[T]) -> AbstractAsyncContextManager[Any]:
    return aclosing(stream) if hasattr(stream, "aclose") else nullcontext()
