"""Clients that are slow, or speak something other than HTTP."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from fastapi import FastAPI

from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.connection import Connection
from agentrt.runtime.serving.http.http11 import MAX_HEAD_BYTES
from tests.runtime.serving.http.serving import Running, Start, listening, read_all

GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /body HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


def answer_to(server: Running, sent: bytes) -> tuple[int, Any]:
    """The status and the error of the answer that ends a connection."""
    with server.connect() as connection:
        connection.sendall(sent)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"] if b"error" in body else None


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /v1/chat", b"GET /health HTTP/1.1\r\nhost: loc", POST + b"content-length: 20\r\n\r\nxxxxxx"],
    ids=["nothing", "a line", "a head", "a body"],
)
def test_a_request_that_never_ends(start: Start, sent: bytes) -> None:
    status, error = answer_to(start(header_timeout_s=0.2, body_timeout_s=0.2), sent)
    assert (status, error["type"]) == (408, "invalid_request_error")


def test_a_second_head_that_never_ends(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[Connection] = []
    start_timer = Connection._start_timer

    def note_and_start_timer(connection: Connection) -> None:
        connections.append(connection)
        start_timer(connection)

    monkeypatch.setattr(Connection, "_start_timer", note_and_start_timer)
    server = start(header_timeout_s=60)
    with server.connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        config = connections[0].config_of_server
        connections[0].config_of_server = config.model_copy(update={"header_timeout_s": 0.1})
        connection.sendall(b"GET /hea")
        assert b"408" in read_all(connection)


@pytest.mark.parametrize(
    "sent",
    [
        *(b"\x16\x03\x01\x02\x00" * 20 + b"\r\n\r\n", b"HELLO\r\n\r\n", b"GET / FTP/9\r\n\r\n"),
        *(CHUNKED + body for body in (b"x\r\n", b"5\r\nhello\r\nzz\r\n", b"5\r\nhello6\r\n")),
        # A body that ends in two places.
        POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
        POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n",
        CHUNKED.replace(b"1.1", b"1.0"),
    ],
)
def test_bytes_that_are_not_http(start: Start, sent: bytes) -> None:
    status, error = answer_to(start(body_timeout_s=600), sent)
    assert (status, error["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("size", [MAX_HEAD_BYTES, 1_000_000])
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_a_head_that_is_too_large(server: Running, size: int, end: bytes) -> None:
    status, error = answer_to(server, GET + b"x: " + b"y" * size + end)
    assert (status, error["type"], error["code"]) == (431, "invalid_request_error", "head_too_large")


@pytest.mark.parametrize("filler", [b"y", b" "])
def test_the_size_of_a_head_counts_every_byte(server: Running, filler: bytes) -> None:
    begin, end = GET + b"x: ", b"\r\nconnection: close\r\n\r\n"
    largest = filler * (MAX_HEAD_BYTES - len(begin + end))
    assert answer_to(server, begin + largest + end)[0] == 200
    assert answer_to(server, begin + largest + b"y" + end)[0] == 431


def test_bytes_behind_the_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
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

    with listening(app, ListenConfig(port=0)) as server, server.connect() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert begun.wait(30)
        connection.sendall(b"\n")
        assert read.wait(30)
        go_on.set()
        assert read_all(connection).endswith(b'"answer"')


@pytest.mark.usefixtures("heads_timed_from_their_first_byte")
def test_pipelined_requests(start: Start) -> None:
    server = start(header_timeout_s=0.2, idle_timeout_s=600)
    with server.connect() as connection:
        connection.sendall((GET + b"\r\n") * 3 + GET + b"connection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200") == 4
    with server.connect() as connection:
        connection.sendall(GET + b"\r\nGET /hea")
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b"HTTP/1.1 408") == 1


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
    head = POST + b"connection: close\r\n"
    chunks = b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
    assert answer_to(server, head + chunks)[0] == 200
    assert max(events for _, events in read) < 200
    read.clear()
    assert answer_to(server, head + b"content-length: 1000000\r\n\r\n" + bytes(1_000_000))[0] == 200
    assert max(size for size, _ in read) <= 1 << 14
