"""Clients that are slow, or speak something other than HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from agentrt.runtime.http.connection import Connection
from tests.runtime.http.serving import Running


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat", b"GET /health HTTP/1.1\r\nhost: loc"])
def test_a_head_that_never_ends(start: Callable[..., Running], sent: bytes) -> None:
    server = start(header_timeout_s=0.2)
    with server.connect() as connection:
        connection.sendall(sent)
        received = read_all(connection)  # until the server closes
    assert received.startswith(b"HTTP/1.1 408")
    assert json.loads(received.split(b"\r\n\r\n", 1)[1])["error"]["type"] == "invalid_request_error"


def test_a_second_head_that_never_ends(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[Connection] = []
    start_timer = Connection._start_timer

    def note_and_start_timer(connection: Connection) -> None:
        connections.append(connection)
        start_timer(connection)

    monkeypatch.setattr(Connection, "_start_timer", note_and_start_timer)
    server = start(header_timeout_s=60)
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        config = connections[0].config_of_server
        connections[0].config_of_server = config.model_copy(update={"header_timeout_s": 0.1})
        connection.sendall(b"GET /hea")
        assert b"408" in read_all(connection)


def test_a_body_that_never_ends(start: Callable[..., Running]) -> None:
    server = start(body_timeout_s=0.2)
    with server.connect() as connection:
        connection.sendall(
            b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n\r\n" + b"x" * 10
        )
        assert read_all(connection).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00" * 20 + b"\r\n\r\n", b"HELLO\r\n\r\n", b"GET / FTP/9\r\n\r\n"]
)
def test_bytes_that_are_not_http(server: Running, sent: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(sent)
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 400")
    assert "error" in json.loads(received.split(b"\r\n\r\n", 1)[1])


@pytest.mark.parametrize("body", [b"x\r\n", b"5\r\nhello\r\nzz\r\n", b"5\r\nhello6\r\n"])
def test_a_body_whose_chunks_are_damaged(server: Running, body: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"POST /body HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n" + body
        )
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 400")
    assert json.loads(received.split(b"\r\n\r\n", 1)[1])["error"]["type"] == "invalid_request_error"


def test_a_head_that_is_too_large(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 100_000)
        assert read_all(connection).startswith(b"HTTP/1.1 4")


def test_pipelined_requests(server: Running) -> None:
    once = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
    with server.connect() as connection:
        connection.sendall((once + b"\r\n") * 3 + once + b"connection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200") == 4
