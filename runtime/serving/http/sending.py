"""Wrappers of ASGI's ``send``, which bound what a client has yet to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.types import Message, Send

from .errors import ApiError
from .held_bytes import HeldBytes

if TYPE_CHECKING:
    from .connection import Connection

PIECE_BYTES: Final = 1 << 16


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
