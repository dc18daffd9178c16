"""Clients that are slow, disconnect, or are many."""

from __future__ import annotations

import json
import selectors
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.serving.http.connection import Connection
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.server.conftest import HELLO

LONG: dict[str, Any] = {"model": "nano", "messages": HELLO, "max_tokens": 2000, "ignore_eos": True}


def request(body: Any, path: str = "/v1/chat/completions") -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_disconnects_frees_its_sequence(
    server: Running,
    runtime: LocalRuntime,
    before: EngineStatistics,
    gate: Any,
    monkeypatch: pytest.MonkeyPatch,
    streamed: bool,
) -> None:
    cancelled = threading.Event()
    cancel = runtime._engine.cancel

    def spy(job: Any) -> None:
        cancel(job)
        cancelled.set()

    monkeypatch.setattr(runtime._engine, "cancel", spy)
    with server.connect() as connection:
        connection.sendall(request(LONG | {"stream": streamed}))
        gate.arrived()
    # The engine is halted before its first step, and the server has noticed the disconnect.
    assert cancelled.wait(30)
    gate.open()
    runtime.generate(HELLO, max_tokens=1)  # the cancellation was requested before this
    statistics = runtime.statistics()
    assert statistics.engine.cancelled == before.cancelled + 1
    assert statistics.engine.sampled_tokens - before.sampled_tokens <= 2
    assert statistics.free_blocks == statistics.blocks


def test_the_time_limit_of_a_head_does_not_limit_answers(
    start: Start, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[Connection] = []
    start_timer = Connection._start_timer

    def note_and_start_timer(connection: Connection) -> None:
        connections.append(connection)
        start_timer(connection)

    monkeypatch.setattr(Connection, "_start_timer", note_and_start_timer)
    url = f"{start().url}/v1/chat/completions"
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(httpx.post, url, json=LONG | {"max_tokens": 300}, timeout=60)
        gate.arrived()  # the answer has begun
        assert [connection._head_timer for connection in connections] == [None]
        gate.open()
        response = answer.result()
    assert response.status_code == 200
    assert response.json()["usage"]["completion_tokens"] == 300


@pytest.mark.check
def test_a_thousand_connections(server: Running, runtime: LocalRuntime) -> None:
    """Each receives its answer or a 429."""
    resource = pytest.importorskip("resource", reason="this system does not say how many files may be open")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4096:
        pytest.skip("this process may open too few files")
    message = request({"model": "nano", "messages": HELLO, "max_tokens": 1}).replace(
        b"host:", b"connection: close\r\nhost:", 1
    )
    received: dict[socket.socket, bytes] = {}
    with selectors.DefaultSelector() as selector:
        for _ in range(1000):
            connection = server.connect()
            received[connection] = b""
            selector.register(connection, selectors.EVENT_READ)
        for connection in received:
            connection.sendall(message)
        waiting = set(received)
        while waiting:
            for key, _ in selector.select(60):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                piece = connection.recv(65536)
                received[connection] += piece
                if not piece:
                    selector.unregister(connection)
                    waiting.remove(connection)
                    connection.close()
    statuses = [answer.split(b" ", 2)[1] for answer in received.values()]
    assert set(statuses) <= {b"200", b"429"}
    assert statuses.count(b"200") >= 256
    assert server.admission.active == 0
    for answer in received.values():
        body = json.loads(answer.split(b"\r\n\r\n", 1)[1])
        assert ("choices" in body) is (b" 200 " in answer[:20])
