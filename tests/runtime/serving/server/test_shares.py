"""One app's requests, many, slow or gone, keep no other app, and no stop of the server, waiting."""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from agentrt.concurrency.fair_threads import Cancellation
from agentrt.errors import InvalidRequestError
from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.serving.http.connection import Connection
from agentrt.runtime.serving.http.identity import Tokens
from agentrt.runtime.toolcache.renderer import ToolTurnRenderer
from tests.runtime.serving.http.serving import Running, Start, until
from tests.runtime.serving.server.conftest import HELLO, WEATHER, running
from tests.runtime.serving.server.test_tool_cache import being_written

GREEDY, OTHER = ({"authorization": f"Bearer {letter * 20}"} for letter in "tu")
TOKENS = Tokens([("greedy", "t" * 20), ("other", "u" * 20)])
REQUEST: dict[str, Any] = {"messages": HELLO, "max_tokens": 2}
ENDLESS: dict[str, Any] = {"messages": [{"role": "user", "content": "endless"}]}


class Endless:
    """Tokenizations of one text that end only when they are cancelled."""

    def __init__(self, encode: Callable[..., list[int]]) -> None:
        self._encode = encode
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.stopped = False

    def __call__(self, rendered: str, progress: Callable[[int], None] = lambda tokens: None) -> list[int]:
        if "endless" not in rendered:
            return self._encode(rendered, progress)
        self.begun.append(rendered)
        try:
            while not self.stopped:
                progress(0)
                time.sleep(0.001)
            raise InvalidRequestError("messages", "the test is over. Go on.")
        finally:
            self.ended.append(rendered)


@pytest.fixture
def endless(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endless]:
    endless = Endless(runtime._tokenizer.encode)
    monkeypatch.setattr(runtime._tokenizer, "encode", endless)
    yield endless
    endless.stopped = True


def request(
    body: Any, path: str = "/v1/chat/completions", headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    content = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        f"content-length: {len(content)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def send(
    server: Running, body: Any, headers: dict[str, str], path: str = "/v1/chat/completions"
) -> socket.socket:
    """Send a request whose answer is never read."""
    connection = server.connect(path)
    connection.sendall(request(body, path, headers))
    return connection


def test_other_apps_find_a_thread(start: Start, endless: Endless) -> None:
    server = start(tokens=TOKENS)
    connections = [send(server, ENDLESS, GREEDY) for _ in range(20)]
    until(lambda: len(endless.begun) >= 2)
    with httpx.Client(base_url=server.url, headers=OTHER, timeout=30) as http:
        for _ in range(3):
            assert http.get("/health").status_code == 200
            assert http.post("/v1/chat/completions", json=REQUEST).status_code == 200
        response = {"input": "Hello!", "max_output_tokens": 2, "store": False}
        assert http.post("/v1/responses", json=response).status_code == 200
    assert (len(endless.begun), endless.ended) == (2, [])  # the rest waits
    for connection in connections:
        connection.close()


@pytest.mark.matrix
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", ENDLESS),
        ("/v1/completions", {"prompt": "endless"}),
        ("/tokenize", {"prompt": "endless"}),
        ("/api/chat", {**ENDLESS, "model": "nano"}),
        ("/v1/responses", {"input": "endless", "store": False}),
    ],
)
def test_the_work_ends_when_the_client_has_gone(
    start: Start, endless: Endless, path: str, body: Any, stream: bool
) -> None:
    server = start(tokens=TOKENS)
    connections = [send(server, body | {"stream": stream}, GREEDY, path) for _ in range(20)]
    until(lambda: len(endless.begun) == 2)
    for connection in connections:
        connection.close()
    with httpx.Client(base_url=server.url, headers=GREEDY, timeout=30) as http:
        assert http.post("/v1/chat/completions", json=REQUEST).status_code == 200
    until(lambda: len(endless.begun) == len(endless.ended))


def test_the_work_ends_when_the_server_stops(runtime: LocalRuntime, endless: Endless) -> None:
    with running(runtime, tokens=TOKENS, drain_s=0) as server:
        connections = [send(server, ENDLESS, GREEDY) for _ in range(4)]
        until(lambda: len(endless.begun) == 2)
    until(lambda: len(endless.begun) == len(endless.ended))
    for connection in connections:
        connection.close()


def test_outputs_of_a_client_that_has_gone_are_not_tokenized(
    start: Start, gate: Any, weather_tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    tokenized: list[str] = []
    begun, cancelled, go = threading.Event(), threading.Event(), threading.Event()
    tokenize, cancel = ToolTurnRenderer.tokenize_call, Cancellation.cancel

    def held(self: ToolTurnRenderer, call: Any, output: str) -> Any:
        tokenized.append(output)
        begun.set()
        assert go.wait(30)
        return tokenize(self, call, output)

    def noted(self: Cancellation) -> None:
        cancel(self)
        cancelled.set()

    monkeypatch.setattr(ToolTurnRenderer, "tokenize_call", held)
    monkeypatch.setattr(Cancellation, "cancel", noted)
    entries = [
        {"name": "get_weather", "params": {"city": f"city {number}"}, "output": str(number)}
        for number in range(30)
    ]
    with (
        httpx.Client(base_url=server.url, timeout=60) as http,
        being_written(http, messages=WEATHER, tools=[weather_tool]) as (id, lines),
    ):
        with send(server, entries, {}, f"/v1/cache-tool-output/{id}"):
            assert begun.wait(30)
        assert cancelled.wait(30)
        go.set()
        gate.open()
        list(lines)
    assert tokenized == ["0"]


@pytest.mark.check
def test_a_chat_does_not_wait_for_another_apps_answers(
    start: Start, runtime: LocalRuntime, gate: Any
) -> None:
    server = start(tokens=TOKENS)
    known, many = runtime._engine._outputs._requests, 40
    with ThreadPoolExecutor(many + 1) as threads, httpx.Client(base_url=server.url, timeout=60) as http:

        def ask(headers: dict[str, str], max_tokens: int) -> Any:
            body = {"model": "nano", "messages": HELLO, "max_tokens": max_tokens, "ignore_eos": True}
            return threads.submit(http.post, "/v1/chat/completions", json=body, headers=headers)

        def step_until(done: Callable[[], bool]) -> int:
            before = len(gate.steps)
            while not done():
                gate.step()
            return len(gate.steps) - before

        long = [ask(GREEDY, 200) for _ in range(many)]
        gate.arrived()
        commands = runtime._engine._commands
        # The engine goes on once it is given all of them, so that none has ended before the last one comes.
        until(lambda: len(known) + commands.qsize() >= many)
        step_until(lambda: len(known) == many and len(gate.steps[-1]) == 16)
        chat = ask(OTHER, 1)
        until(lambda: not commands.empty())
        step_until(lambda: len(known) > many)  # a request is taken in between two steps
        assert step_until(lambda: "other" in {chunk.sequence.app for chunk in gate.steps[-1]}) <= 2
        gate.open()
        assert [each.result().status_code for each in (chat, *long)] == [200] * (many + 1)
    until(lambda: server.admission.active == 0)


LONG: dict[str, Any] = {"model": "nano", "messages": HELLO, "max_tokens": 2000, "ignore_eos": True}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_disconnects_frees_its_sequence(
    server: Running,
    runtime: LocalRuntime,
    before: EngineStatistics,
    gate: Any,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    streamed: bool,
) -> None:
    cancelled = threading.Event()
    cancel = runtime._engine.cancel

    def spy(job: Any) -> None:
        cancel(job)
        cancelled.set()

    monkeypatch.setattr(runtime._engine, "cancel", spy)
    with send(server, LONG | {"stream": streamed}, {}, path):
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
    message = request(REQUEST, headers={"connection": "close"})
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
