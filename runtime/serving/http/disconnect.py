"""Clients that disconnect while their request is read or served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from .errors import ApiError

T = TypeVar("T")


async def body_of(request: Request) -> bytes:
    """Return the body of ``request``.

    Raises:
        ApiError: 499, the client has disconnected; the response is not delivered.
    """
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
