"""Several streams as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """Every item of every stream with its stream's number, as they come.

    The first error of a stream ends all of them and is raised. However it ends, all streams are closed.
    """
    if len(streams) == 1:  # the usual case needs no task beside the caller's
        async with aclosing(streams[0]) as stream:
            async for item in stream:
                yield 0, item
        return
    items: asyncio.Queue[tuple[int, T] | Exception | None] = asyncio.Queue(maxsize=1)

    async def forward(number: int) -> None:
        try:
            async with aclosing(streams[number]) as stream:
                async for item in stream:
                    await items.put((number, item))
        except Exception as error:  # noqa: BLE001 - raised below, where the items are read
            await items.put(error)
        else:
            await items.put(None)

    tasks = [asyncio.create_task(forward(number)) for number in range(len(streams))]
    try:
        for _ in tasks:
            while (got := await items.get()) is not None:
                if isinstance(got, Exception):
                    raise got
                yield got
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
