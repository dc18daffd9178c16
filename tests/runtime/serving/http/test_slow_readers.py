"""Clients that do not read what they are sent, that go on sending, and that have no token."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from agentrt.runtime.serving.http import connection as connection_module
from agentrt.runtime.serving.http.config import ListenConfig
from tests.runtime.serving.http.conftest import LARGE, guarded
from tests.runtime.serving.http.serving import MAIL, NOTES, TOKENS, Running, Start, listening, read_all, until

MIB = 2**20
ASK = b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n"
REFUSED = b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\nauthorization: no\r\n\r\n"


def connect(server: Running, sent: bytes = b"") -> socket.socket:
    """Connect with a small buffer, and send something."""
    connection = socket.socket()
    connection.settimeout(30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    with suppress(ConnectionError):  # the server may not wait for the end
        connection.sendall(sent)
    return connection


def wait_for_reset(*connections: socket.socket) -> int:
    """Wait until the server has closed one of the connections, without reading; return how many it has."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, 0)  # errors and hang-ups only
    closed = len(poll.poll(30_000))
    assert closed
    return closed


@contextmanager
def served(**settings: Any) -> Iterator[tuple[Running, FastAPI]]:
    """A server that ends at the end of the block, within the test."""
    config = ListenConfig(port=0, **settings)
    app = guarded(config)
    with listening(app, config) as server:
        yield server, app


def test_a_client_that_never_reads_is_disconnected(start: Start) -> None:
    server = start(write_timeout_s=0.2)
    with connect(server, ASK) as connection:
        wait_for_reset(connection)
    until(lambda: server.connections == server.admission.held_bytes == 0)


def test_a_refused_client_that_never_reads_is_disconnected(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LINGER_S", 0.2)
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


def test_pipelined_requests_wait_until_the_answers_are_read() -> None:
    with served(write_timeout_s=0.2) as (server, app), connect(server, ASK * 100) as connection:
        wait_for_reset(connection)
    assert app.state.large_answers == 1


def test_unread_answers_count_as_bytes_of_their_app(start: Start) -> None:
    server = start(tokens=TOKENS, max_held_bytes=5 * LARGE, max_body_bytes=LARGE)
    ask = ASK.replace(b"\r\n\r\n", b"\r\nauthorization: " + MAIL["authorization"].encode() + b"\r\n\r\n")
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(server, ask)) for _ in range(4)]
        assert wait_for_reset(*slow) == 1  # room for three of them
        assert len(httpx.get(f"{server.url}/large", headers=NOTES).content) == LARGE


def test_clients_without_a_token_leave_room_for_others(start: Start) -> None:
    server = start(tokens=TOKENS, max_connections=8)
    with httpx.Client(base_url=server.url, headers=MAIL) as mail, ExitStack() as stack:
        assert mail.get("/app").json() == "mail"
        silent = [stack.enter_context(connect(server, b"GET /")) for _ in range(20)]
        for connection in silent[:16]:
            wait_for_reset(connection)
        assert server.connections == 5
        assert mail.get("/app").json() == "mail"
        assert httpx.get(f"{server.url}/app", headers=NOTES).json() == "notes"
        assert httpx.get(f"{server.url}/health").status_code == 200


def test_connections_of_one_app_leave_room_for_those_of_others(start: Start) -> None:
    server = start(tokens=TOKENS, max_connections=16)
    busy = b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\nauthorization: "
    busy += MAIL["authorization"].encode() + b"\r\n\r\nx"
    with ExitStack() as stack:
        held = [stack.enter_context(server.connect()) for _ in range(6)]
        for connection in held:
            connection.sendall(busy)
        until(lambda: server.connections == 6)
        response = httpx.get(f"{server.url}/app", headers=MAIL)
        assert (response.status_code, response.headers["connection"]) == (429, "close")
        assert httpx.get(f"{server.url}/app", headers=NOTES).json() == "notes"
        for connection in held:
            connection.sendall(b"y")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        (MAIL, bytes(8_500_000), 413, "request_too_large"),
        (MAIL, [bytes(65536)] * 130, 413, "request_too_large"),
        (MAIL, bytes(30 * MIB), 413, "request_too_large"),
        ({}, bytes(8 * MIB), 401, "invalid_api_key"),
        (MAIL | {"host": "evil.example"}, bytes(8 * MIB), 421, "invalid_host"),
    ],
    ids=["a length", "chunks", "as much as is discarded", "no token", "a foreign host"],
)
def test_a_client_that_sends_all_before_it_reads(
    start: Start, headers: dict[str, str], body: Any, status: int, code: str
) -> None:
    server = start(tokens=TOKENS)
    client = HTTPConnection("127.0.0.1", server.port, timeout=60)
    client.request("POST", "/body", body=body, headers=headers)
    response = client.getresponse()
    assert response.status == status
    assert json.loads(response.read())["error"]["code"] == code
    client.close()


def test_a_client_that_never_stops_sending(start: Start) -> None:
    server = start(max_body_bytes=1000)
    with server.connect() as connection:
        connection.sendall(b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n")
        with pytest.raises(ConnectionError):
            connection.sendall(bytes(100 * MIB))
    until(lambda: server.connections == 0)


def test_a_client_that_neither_sends_nor_closes(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "LINGER_S", 0.2)
    server = start(tokens=TOKENS)
    with server.connect() as connection:
        connection.sendall(REFUSED)
        assert read_all(connection).startswith(b"HTTP/1.1 401")
        until(lambda: server.connections == 0)


def test_a_new_connection_takes_the_place_of_one_that_lingers(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LINGER_S", 600)
    server = start(tokens=TOKENS, max_connections=8)
    with ExitStack() as stack:
        for _ in range(20):
            refused = stack.enter_context(server.connect())
            refused.sendall(REFUSED)
            assert read_all(refused).startswith(b"HTTP/1.1 401")
        assert server.connections <= 4
        assert httpx.get(f"{server.url}/app", headers=MAIL).json() == "mail"


@pytest.mark.parametrize("client", ["does not read", "does not close", "has no request"])
def test_a_stop_waits_for_no_client(monkeypatch: pytest.MonkeyPatch, client: str) -> None:
    monkeypatch.setattr(connection_module, "LINGER_S", 600)
    monkeypatch.setattr(connection_module, "STOPPING_WRITE_S", 600 if client == "has no request" else 0.1)
    with ExitStack() as stack, served(drain_s=600, tokens=TOKENS) as (server, app):
        token = b"authorization: %b\r\n" % MAIL["authorization"].encode()
        connection = stack.enter_context(connect(server))
        if client == "does not read":
            connection.sendall(ASK[:-2] + token + b"\r\n")
            until(lambda: app.state.large_answers)
        elif client == "does not close":
            connection.sendall(REFUSED)
            assert read_all(connection).startswith(b"HTTP/1.1 401")
        else:
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + token + b"\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
