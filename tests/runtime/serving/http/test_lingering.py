"""Connections that the server closes while their clients are still sending."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.http import connection as connection_module
from agentrt.runtime.serving.http import lingering
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.conftest import guarded
from tests.runtime.serving.http.serving import Start, listening, until
from tests.runtime.serving.http.test_connection import read_all

MIB = 2**20
TOKEN = {"authorization": "Bearer " + "t" * 20}
REFUSED = b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\nauthorization: no\r\n\r\n"


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        (TOKEN, bytes(8_500_000), 413, "request_too_large"),
        (TOKEN, [bytes(65536)] * 130, 413, "request_too_large"),
        (TOKEN, bytes(30 * MIB), 413, "request_too_large"),
        ({}, bytes(8 * MIB), 401, "invalid_api_key"),
        (TOKEN | {"host": "evil.example"}, bytes(8 * MIB), 421, "invalid_host"),
    ],
    ids=["a length", "chunks", "as much as is discarded", "no token", "a foreign host"],
)
def test_a_client_that_sends_all_before_it_reads(
    start: Start, headers: dict[str, str], body: Any, status: int, code: str
) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20)]))
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
    monkeypatch.setattr(lingering, "LINGER_S", 0.2)
    server = start(tokens=Tokens([("mine", "t" * 20)]))
    with server.connect() as connection:
        connection.sendall(REFUSED)
        assert read_all(connection).startswith(b"HTTP/1.1 401")
        until(lambda: server.connections == 0)


def test_a_new_connection_takes_the_place_of_one_that_lingers(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 600)
    server = start(tokens=Tokens([("mine", "t" * 20)]), max_connections=8)
    refused: list[socket.socket] = []
    for _ in range(20):
        refused.append(server.connect())
        refused[-1].sendall(REFUSED)
        assert read_all(refused[-1]).startswith(b"HTTP/1.1 401")
    assert server.connections <= 4
    assert httpx.get(f"{server.url}/app", headers=TOKEN).json() == "mine"
    for connection in refused:
        connection.close()


def test_a_stop_waits_for_no_client_that_does_not_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 600)
    monkeypatch.setattr(connection_module, "STOPPING_WRITE_S", 0.1)
    config = ListenConfig(port=0, drain_s=600, tokens=Tokens([("mine", "t" * 20)]))
    with listening(guarded(config), config) as server:  # ends when the server has
        connection = server.connect()
        connection.sendall(REFUSED)
        assert read_all(connection).startswith(b"HTTP/1.1 401")
    connection.close()


def test_a_stop_closes_connections_without_requests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 600)
    monkeypatch.setattr(connection_module, "STOPPING_WRITE_S", 600)
    config = ListenConfig(port=0, drain_s=600)
    with listening(guarded(config), config) as server:
        connection = server.connect()
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    connection.close()
