"""Clients that are slow, or speak something other than HTTP."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from fastapi import FastAPI

from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.connection import Connection
from agentrt.runtime.serving.http.http11 import MAX_HEAD_BYTES
from tests.runtime.serving.http.serving import Running, Start, listening


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat", b"GET /health HTTP/1.1\r\nhost: loc"])
def test_a_head_that_never_ends(start: Start, sent: bytes) -> None:
    server = start(header_timeout_s=0.2)
    with server.connect() as connection:
        connection.sendall(sent)
        received = read_all(connection)  # until the server closes
    assert received.startswith(b"HTTP/1.1 408")
    assert json.loads(received.split(b"\r\n\r\n", 1)[1])["error"]["type"] == "invalid_request_error"


def test_a_second_head_that_never_ends(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_body_that_never_ends(start: Start) -> None:
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


@pytest.mark.parametrize("size", [MAX_HEAD_BYTES, 100_000, 1_000_000])
@pytest.mark.parametrize("complete", [True, False])
def test_a_head_that_is_too_large(server: Running, size: int, complete: bool) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * size)
        if complete:
            connection.sendall(b"\r\n\r\n")
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 431")
    error = json.loads(received.split(b"\r\n\r\n", 1)[1])["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "head_too_large")


@pytest.mark.parametrize("filler", [b"y", b" "])
def test_the_size_of_a_head_counts_every_byte(server: Running, filler: bytes) -> None:
    begin, end = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ", b"\r\nconnection: close\r\n\r\n"
    largest = filler * (MAX_HEAD_BYTES - len(begin + end))
    for added, status in ((b"", b"200"), (b"y", b"431")):
        with server.connect() as connection:
            connection.sendall(begin + largest + added + end)
            assert read_all(connection).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n",
        b"HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n",
        b"HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n",
        b"HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        b"HTTP/1.0\r\ntransfer-encoding: chunked\r\n",
    ],
)
def test_a_body_that_ends_in_two_places(start: Start, head: bytes) -> None:
    server = start(body_timeout_s=600)
    with server.connect() as connection:
        connection.sendall(b"POST /body " + head + b"host: localhost\r\n\r\n")
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 400")
    assert json.loads(received.split(b"\r\n\r\n", 1)[1])["error"]["type"] == "invalid_request_error"


def test_bytes_behind_the_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ListenConfig(port=0)
    app = FastAPI()
    begun, read, go_on = threading.Event(), threading.Event(), threading.Event()
    receive = Connection.data_received

    def receive_and_note(connection: Connection, data: bytes) -> None:
        receive(connection, data)
        if data == b"\n":
            read.set()

    monkeypatch.setattr(Connection, "data_received", receive_and_note)

    @app.get("/slow")
    def slow() -> str:
        begun.set()
        go_on.wait(30)
        return "answer"

    with listening(app, config) as server, server.connect() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert begun.wait(30)
        connection.sendall(b"\n")
        assert read.wait(30)
        go_on.set()
        assert read_all(connection).endswith(b'"answer"')


def test_pipelined_requests_of_which_the_last_has_no_end(start: Start) -> None:
    server = start(header_timeout_s=0.2, idle_timeout_s=600)
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nGET /hea")
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"HTTP/1.1 408") == 1


def test_pipelined_requests(server: Running) -> None:
    once = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
    with server.connect() as connection:
        connection.sendall((once + b"\r\n") * 3 + once + b"connection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200") == 4


def test_a_body_in_many_chunks_is_parsed_in_many_turns(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is parsed in one turn of the event loop keeps other clients waiting."""
    read: list[tuple[int, int]] = []
    received = Connection.data_received

    def note_and_receive(connection: Connection, data: bytes) -> None:
        before = connection.conn.events
        received(connection, data)
        read.append((len(data), connection.conn.events - before))

    monkeypatch.setattr(Connection, "data_received", note_and_receive)
    head = b"POST /body HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    with server.connect() as connection:
        connection.sendall(
            head + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
        )
        assert read_all(connection).startswith(b"HTTP/1.1 200")
    assert max(events for _, events in read) < 200
    read.clear()
    with server.connect() as connection:
        connection.sendall(head + b"content-length: 1000000\r\n\r\n" + bytes(1_000_000))
        assert read_all(connection).startswith(b"HTTP/1.1 200")
    assert max(size for size, _ in read) <= 1 << 14
