"""Answers in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message

from agentrt.priority import Priority
from agentrt.runtime.serving.http.admission import FREE_BYTES, HeldBytes, Shares
from agentrt.runtime.serving.http.errors import ApiError
from agentrt.runtime.serving.http.streaming import PIECE_BYTES, ending_connection, in_pieces

HEAD: Message = {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}


def sent(messages: Sequence[Message], held: HeldBytes) -> list[Message]:
    received: list[Message] = []

    async def send(message: Message) -> None:
        received.append(message)

    async def send_all() -> None:
        for message in messages:
            await in_pieces(send, held, None)(message)

    asyncio.run(send_all())
    return received


def held_bytes(places: int = 2**30) -> HeldBytes:
    return HeldBytes({Priority.REACTIVE: Shares(places)}, "mine", Priority.REACTIVE)


@pytest.mark.parametrize("more", [{}, {"more_body": True}, {"more_body": False}])
@pytest.mark.parametrize("length", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 3 * PIECE_BYTES + 7])
def test_a_large_body_is_sent_in_pieces(length: int, more: Message) -> None:
    body = bytes(number % 251 for number in range(length))
    message = {"type": "http.response.body", "body": body, **more}
    head, *pieces = sent([HEAD, message], held_bytes())
    assert head == HEAD
    assert b"".join(piece["body"] for piece in pieces) == body
    assert all(len(piece["body"]) <= PIECE_BYTES for piece in pieces)
    assert all(piece["more_body"] for piece in pieces[:-1])
    assert pieces[-1].get("more_body", False) == more.get("more_body", False)


def test_a_body_counts_as_held_bytes() -> None:
    held = held_bytes(100)
    message = {"type": "http.response.body", "body": bytes(FREE_BYTES + 100)}
    assert len(sent([message], held)) == 2
    with pytest.raises(ApiError, match="too many"):
        sent([{**message, "body": bytes(FREE_BYTES + 101)}], held)


def test_a_response_that_ends_its_connection() -> None:
    received: list[Message] = []

    async def send(message: Message) -> None:
        received.append(message)

    async def send_head() -> None:
        await ending_connection(send)(HEAD)

    asyncio.run(send_head())
    assert received == [{**HEAD, "headers": [(b"a", b"b"), (b"connection", b"close")]}]
