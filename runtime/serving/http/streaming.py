"""Responses that end with their client: streamed, in pieces, or cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from .admission import HeldBytes
from .errors import ApiError

if TYPE_CHECKING:
    from .connection import Connection

T = TypeVar("T")

PIECE_BYTES: Final = 1 << 16


async def body_of(request: Request) -> bytes:
    """Return the body of ``request``; raise a 499, which is not delivered, if the client has disconnected."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise ApiError(499, "the client disconnected.") from None


async def cancel_on_disconnect(request: Request, work: Awaitable[T]) -> T:
    """Return the result of ``work``; cancel it if the client disconnects first.

    The request's body must have been read: any further message means that the client has disconnected.

    Raises:
        ApiError: 499, the client has disconnected; the response is not delivered.
    """

    async def disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(disconnect())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ApiError(499, "the client disconnected.")
        return working.result()
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)


def ending_connection(send: Send) -> Send:
    """Wrap ``send``: the connection ends with the response."""

    async def ending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return ending


def in_pieces(send: Send, held: HeldBytes, connection: Connection | None) -> Send:
    """Wrap ``send``: a large answer is sent in pieces, each once the client has read those before it.

    It counts as bytes that are held for the request. If these are too many, the connection is closed, since
    the answer's head has been sent.
    """

    async def send_pieces(message: Message) -> None:
        body = message.get("body", b"")
        try:
            held.grow_to(len(body))
        except ApiError:
            if connection is None:
                raise
            connection.abort()
            return
        last = max(0, len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        for start in range(0, last, PIECE_BYTES):
            await send({**message, "body": body[start : start + PIECE_BYTES], "more_body": True})
        await send({**message, "body": body[last:]} if last else message)

    return send_pieces


class ClosingStreamingResponse(StreamingResponse):
    """A streamed response that awaits ``close`` when its body has ended or the client has disconnected."""

    def __init__(
        self,
        body: AsyncGenerator[str, None] | AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]] | None = None,
        **options: Any,
    ) -> None:
        """``options`` are those of Starlette's responses: status, headers, media type."""
        super().__init__(body, **options)
        self._body = body
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body, then close it and await ``close``."""
        try:
            async with aclosing(self._body):
                await super().__call__(scope, receive, send)
        finally:
            if self._close is not None:
                await self._close()
