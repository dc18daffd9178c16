"""How many requests may be under way, and the watch over clients that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .errors import ApiError, too_many

T = TypeVar("T")


class Admission:
    """Counts what is under way. For one event loop."""

    def __init__(self, limit: int) -> None:
        """``limit`` requests may be under way."""
        self._limit = limit
        self.active = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place for as long as the block runs.

        Raises:
            ApiError: 429, there is none.
        """
        if self.active >= self._limit:
            raise too_many(f"{self._limit} requests are under way. Ask again in a moment.")
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Do ``work`` for a client whose body has been read; if the client goes away, cancel it.

    Raises:
        ApiError: 499, which nobody receives any more.
    """

    async def departure() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(departure())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ApiError(499, "the client went away.")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


class Streamed(StreamingResponse):
    """A body that is made while it is sent; when it ends, or the client goes away, ``close`` is awaited."""

    def __init__(
        self,
        body: AsyncGenerator[str, None] | AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]],
        **head: Any,
    ) -> None:
        """``head`` is as for any response of Starlette's."""
        super().__init__(body, **head)
        self._body = body
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it."""
        try:
            async with aclosing(self._body):
                await super().__call__(scope, receive, send)
        finally:
            await self._close()


class EventStream(Streamed):
    """Server-sent events: ``events`` yields whole ones, their final newlines included."""

    def __init__(self, events: AsyncGenerator[str, None], close: Callable[[], Awaitable[None]]) -> None:
        """See :class:`Streamed`."""
        super().__init__(events, close, media_type="text/event-stream", headers={"cache-control": "no-store"})
