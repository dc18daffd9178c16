"""Clients that do not read what they are sent, and clients without a token."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.http import connection as connection_module
from agentrt.runtime.serving.http import lingering
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.conftest import LARGE, guarded
from tests.runtime.serving.http.serving import Running, Start, listening, until
from tests.runtime.serving.http.test_connection import read_all

TOKENS = Tokens([("mail", "m" * 20), ("notes", "n" * 20)])
MAIL, NOTES = ({"authorization": f"Bearer {letter * 20}"} for letter in "mn")
ASK = b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n"


def connect(server: Running, sent: bytes = b"") -> socket.socket:
    """Connect with a small buffer, and send something."""
    connection = socket.socket()
    connection.settimeout(30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    with suppress(ConnectionError):  # the server may not wait for the end
        connection.sendall(sent)
    return connection


def wait_for_reset(connection: socket.socket) -> None:
    """Wait until the server has closed the connection, without reading from it."""
    poll = select.poll()
    poll.register(connection, 0)  # errors and hang-ups only
    assert poll.poll(30_000)


def test_a_client_that_never_reads_is_disconnected(start: Start) -> None:
    server = start(write_timeout_s=0.2)
    with connect(server, ASK) as connection:
        wait_for_reset(connection)
    until(lambda: server.connections == server.admission.held_bytes == 0)


def test_a_refused_client_that_never_reads_is_disconnected(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 0.2)
    server = start(tokens=TOKENS)
    with connect(server, ASK * 10_000):
        until(lambda: server.connections == 0)


@pytest.mark.parametrize(("path", "status"), [("/health", b"200"), ("/app", b"401"), ("/large", b"401")])
def test_a_request_without_a_token_ends_its_connection(start: Start, path: str, status: bytes) -> None:
    server = start(tokens=TOKENS)
    asked = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    with server.connect() as connection:
        connection.sendall(asked * 3)
        received = read_all(connection)
    assert received.count(b"HTTP/1.1 " + status) == received.count(b"HTTP/1.1") == 1
    assert b"connection: close" in received


def test_pipelined_requests_wait_until_the_answers_are_read(start: Start) -> None:
    config = ListenConfig(port=0, write_timeout_s=0.2)
    app = guarded(config)
    with listening(app, config) as server, connect(server, ASK * 100) as connection:
        wait_for_reset(connection)
    assert app.state.large_answers == 1


def test_a_stop_waits_for_no_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "STOPPING_WRITE_S", 0.1)
    config = ListenConfig(port=0, drain_s=600)
    app = guarded(config)
    with listening(app, config) as server:  # ends when the server has
        connection = connect(server, ASK)
        until(lambda: app.state.large_answers)
    connection.close()


def test_unread_answers_count_as_bytes_of_their_app(start: Start) -> None:
    server = start(tokens=TOKENS, max_held_bytes=5 * LARGE, max_body_bytes=LARGE)
    ask = ASK.replace(b"\r\n\r\n", b"\r\nauthorization: " + MAIL["authorization"].encode() + b"\r\n\r\n")
    slow = [connect(server, ask) for _ in range(4)]
    poll = select.poll()
    for connection in slow:
        poll.register(connection, 0)
    assert len(poll.poll(30_000)) == 1  # room for three of them
    assert len(httpx.get(f"{server.url}/large", headers=NOTES).content) == LARGE
    for connection in slow:
        connection.close()


def test_clients_without_a_token_leave_room_for_others(start: Start) -> None:
    server = start(tokens=TOKENS, max_connections=8)
    with httpx.Client(base_url=server.url, headers=MAIL) as mail:
        assert mail.get("/app").json() == "mail"
        silent = [connect(server, b"GET /") for _ in range(20)]
        for connection in silent[:16]:
            wait_for_reset(connection)
        assert server.connections == 5
        assert mail.get("/app").json() == "mail"
        assert httpx.get(f"{server.url}/app", headers=NOTES).json() == "notes"
        assert httpx.get(f"{server.url}/health").status_code == 200
    for connection in silent:
        connection.close()


def test_connections_of_one_app_leave_room_for_those_of_others(start: Start) -> None:
    server = start(tokens=TOKENS, max_connections=16)
    busy = b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\nauthorization: "
    busy += MAIL["authorization"].encode() + b"\r\n\r\nx"
    held: list[Any] = []
    while len(held) < 6:
        held.append(server.connect())
        held[-1].sendall(busy)
    until(lambda: server.connections == 6)
    response = httpx.get(f"{server.url}/app", headers=MAIL)
    assert (response.status_code, response.headers["connection"]) == (429, "close")
    assert httpx.get(f"{server.url}/app", headers=NOTES).json() == "notes"
    for connection in held:
        connection.sendall(b"y")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.close()
