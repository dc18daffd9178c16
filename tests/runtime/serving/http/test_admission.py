"""Bodies that are refused before they are read, because too many bytes are held."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError
from agentrt.priority import PRIORITY_HEADER
from agentrt.runtime.serving.http.admission import FREE_BYTES
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, Start, until

BODY = 2**20
TOKENS = Tokens([("mail", "m" * 20), ("notes", "n" * 20)])
MAIL, NOTES = ({"authorization": f"Bearer {letter * 20}"} for letter in "mn")


@pytest.fixture
def server(start: Start) -> Running:
    """A server that holds eight large bodies: two of each app, and four of those that come first."""
    return start(tokens=TOKENS, max_body_bytes=BODY + FREE_BYTES, max_held_bytes=8 * BODY)


@pytest.fixture
def begin(server: Running) -> Iterator[Callable[..., socket.socket]]:
    """Sends the head of a request with a large body, and a part of the body."""
    with ExitStack() as stack:

        def begin(headers: dict[str, str]) -> socket.socket:
            connection = stack.enter_context(server.connect())
            head = ["POST /body HTTP/1.1", "host: localhost", f"content-length: {BODY + FREE_BYTES}"]
            head += [f"{name}: {value}" for name, value in headers.items()]
            connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + b"x" * FREE_BYTES)
            return connection

        yield begin


def wait_for_bytes(server: Running, held: int) -> None:
    until(lambda: server.admission.held_bytes == held)


def test_bodies_of_one_app_leave_room_for_others(server: Running, begin: Callable[..., Any]) -> None:
    slow = [begin(MAIL) for _ in range(6)]
    wait_for_bytes(server, 6 * BODY)
    refused = begin(MAIL)
    received = b""
    while piece := refused.recv(65536):  # although its body is not complete
        received += piece
    assert received.startswith(b"HTTP/1.1 429")
    assert b"retry-after: 1" in received
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.post("/body", content=b"x" * BODY, headers=NOTES).json() == BODY
        assert http.post("/body", content=b"x" * 1000, headers=MAIL).json() == 1000, "small ones are free"
        background = MAIL | {PRIORITY_HEADER: "proactive"}
        assert http.post("/body", content=b"x" * BODY, headers=background).json() == BODY
    for connection in slow:
        connection.close()
    wait_for_bytes(server, 0)
    assert httpx.post(f"{server.url}/body", content=b"x" * BODY, headers=MAIL).json() == BODY


def test_a_body_without_a_length_is_counted_as_it_arrives(server: Running, begin: Callable[..., Any]) -> None:
    for _ in range(6):
        begin(MAIL)
    wait_for_bytes(server, 6 * BODY)
    response = httpx.post(f"{server.url}/body", content=iter([b"x" * FREE_BYTES] * 4), headers=MAIL)
    assert response.status_code == 429
    assert response.headers["connection"] == "close"


def test_a_body_of_the_greatest_length_finds_room() -> None:
    with pytest.raises(ConfigurationError, match="max_held_bytes"):
        ListenConfig(max_body_bytes=2**20, max_held_bytes=2**20).check()
