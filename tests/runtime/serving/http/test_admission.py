"""Places of apps, and the bytes that are held for their requests."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from agentrt.errors import ConfigurationError
from agentrt.priority import PRIORITY_HEADER, Priority
from agentrt.runtime.serving.http.admission import FREE_BYTES, HeldBytes, Shares
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.errors import ApiError
from agentrt.runtime.serving.http.streaming import PIECE_BYTES, in_pieces
from tests.runtime.serving.http.serving import MAIL, NOTES, TOKENS, Running, Start, read_all, until

BODY = 2**20


def taken_by(shares: Shares, app: str) -> int:
    count = 0
    while shares.take(app):
        count += 1
    return count


@pytest.mark.parametrize(
    ("places", "apps", "taking", "taken"),
    [
        (10, "", "a", [10]),
        (10, "a", "a", [10]),
        (12, "abc", "abc", [8, 2, 2]),
        (12, "abc", "xa", [6, 2]),  # one without a token takes common places only
        (11, "abcdef", "abcdef", [11, 0, 0, 0, 0, 0]),  # fewer than two for each
    ],
)
def test_each_app_finds_its_own_places(places: int, apps: str, taking: str, taken: list[int]) -> None:
    shares = Shares(places, tuple(apps))
    assert [taken_by(shares, app) for app in taking] == taken
    assert shares.taken == sum(taken)


@given(st.lists(st.tuples(st.sampled_from("abcx"), st.integers(1, 9), st.booleans()), max_size=60))
def test_in_any_order(steps: list[tuple[str, int, bool]]) -> None:
    shares, taken = Shares(24, "abc"), Counter[str]()
    for app, places, gives in steps:
        if gives:
            places = min(places, taken[app])
            shares.give_back(app, places)
            taken[app] -= places
        else:
            own = app in "abc" and taken[app] + places <= 4
            got = shares.take(app, places)
            assert got or not own
            taken[app] += places if got else 0
        assert shares.taken == taken.total() <= 24
    for app, places in taken.items():
        shares.give_back(app, places)
    assert [taken_by(shares, app) for app in "xabc"] == [12, 4, 4, 4]


@pytest.fixture
def server(start: Start) -> Running:
    """A server that holds eight large bodies: two of each app, and four of those that come first."""
    return start(tokens=TOKENS, max_body_bytes=BODY + FREE_BYTES, max_held_bytes=8 * BODY)


@pytest.fixture
def begin(server: Running) -> Iterator[Callable[..., socket.socket]]:
    """Sends the head of a request of MAIL with a large body, and a part of the body."""
    with ExitStack() as stack:

        def begin() -> socket.socket:
            connection = stack.enter_context(server.connect())
            head = f"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: {BODY + FREE_BYTES}\r\n"
            head += f"authorization: {MAIL['authorization']}\r\n\r\n"
            connection.sendall(head.encode() + b"x" * FREE_BYTES)
            return connection

        yield begin


def test_bodies_of_one_app_leave_room_for_others(server: Running, begin: Callable[..., Any]) -> None:
    slow = [begin() for _ in range(6)]
    until(lambda: server.admission.held_bytes == 6 * BODY)
    received = read_all(begin())  # although its body is not complete
    assert received.startswith(b"HTTP/1.1 429")
    assert b"retry-after: 1" in received
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.post("/body", content=b"x" * BODY, headers=NOTES).json() == BODY
        assert http.post("/body", content=b"x" * 1000, headers=MAIL).json() == 1000, "small ones are free"
        background = MAIL | {PRIORITY_HEADER: "proactive"}
        assert http.post("/body", content=b"x" * BODY, headers=background).json() == BODY
        # One without a length is counted as it arrives.
        refused = http.post("/body", content=iter([b"x" * FREE_BYTES] * 4), headers=MAIL)
        assert (refused.status_code, refused.headers["connection"]) == (429, "close")
    for connection in slow:
        connection.close()
    until(lambda: server.admission.held_bytes == 0)
    assert httpx.post(f"{server.url}/body", content=b"x" * BODY, headers=MAIL).json() == BODY


def test_a_body_of_the_greatest_length_finds_room() -> None:
    with pytest.raises(ConfigurationError, match="max_held_bytes"):
        ListenConfig(max_body_bytes=2**20, max_held_bytes=2**20).check()


def sent(messages: Sequence[Message], places: int) -> list[Message]:
    """What is sent of an answer in pieces, by who may hold so many bytes."""
    received: list[Message] = []

    async def send(message: Message) -> None:
        received.append(message)

    async def send_all() -> None:
        held = HeldBytes({Priority.REACTIVE: Shares(places, ())}, "mine", Priority.REACTIVE)
        for message in messages:
            await in_pieces(send, held, None)(message)

    asyncio.run(send_all())
    return received


@pytest.mark.parametrize("more", [{}, {"more_body": True}, {"more_body": False}])
@pytest.mark.parametrize("length", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 3 * PIECE_BYTES + 7])
def test_a_large_body_is_sent_in_pieces(length: int, more: Message) -> None:
    begin: Message = {"type": "http.response.start", "status": 200, "headers": []}
    body = bytes(number % 251 for number in range(length))
    head, *pieces = sent([begin, {"type": "http.response.body", "body": body, **more}], 2**30)
    assert head == begin
    assert b"".join(piece["body"] for piece in pieces) == body
    assert all(len(piece["body"]) <= PIECE_BYTES for piece in pieces)
    assert all(piece["more_body"] for piece in pieces[:-1])
    assert pieces[-1].get("more_body", False) == more.get("more_body", False)


def test_a_body_counts_as_held_bytes() -> None:
    message = {"type": "http.response.body", "body": bytes(FREE_BYTES + 100)}
    assert len(sent([message], 100)) == 2
    with pytest.raises(ApiError, match="too many"):
        sent([message], 99)
