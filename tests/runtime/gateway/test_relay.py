"""Relayed requests, and the errors for engines that fail."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from agentrt.errors import ConfigurationError
from agentrt.runtime.gateway import GatewayConfig
from agentrt.runtime.http.config import ListenConfig
from agentrt.runtime.http.identity import Tokens
from tests.runtime.http.serving import Running, listening
from tests.runtime.server.conftest import HELLO

TOKEN = "t" * 20
TOOL = {"type": "function", "function": {"name": "read"}}
STREAMED = {"model": "m", "messages": HELLO, "stream": True, "tools": [TOOL]}


@pytest.fixture(scope="module")
def mirror() -> Iterator[Running]:
    """An engine whose response describes the request it received."""
    app = FastAPI(openapi_url=None)

    async def describe(request: Request) -> Response:
        received = {
            "method": request.method,
            "path": request.scope["raw_path"].decode(),
            "query": request.scope["query_string"].decode(),
            "headers": dict(request.headers),
            "body": (await request.body()).decode("latin-1"),
        }
        response = Response(
            gzip.compress(json.dumps(received).encode()),
            418,
            {"content-encoding": "gzip", "x-request-id": "7", "connection": "x-hop", "x-hop": "1"},
        )
        response.headers.append("set-cookie", "a=1")
        response.headers.append("set-cookie", "b=2")
        return response

    app.add_route("/{path:path}", describe, methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    with listening(app, ListenConfig(port=0, drain_s=1)) as server:
        yield server


def test_everything_is_relayed(mirror: Running, start: Callable[..., Running]) -> None:
    gateway = start(f"{mirror.url}/v1/")
    headers = {"authorization": "Bearer theirs", "x-more": "1", "te": "trailers", "accept-encoding": "gzip"}
    for method, path, body in (
        ("GET", "/metrics", None),
        ("POST", "/v1/embeddings?x=1&x=%2F", b"\x00\xff"),
        ("POST", "/v1/chat/completions", b'{"stream": false}'),
        ("POST", "/v1/chat/completions", json.dumps(STREAMED).encode()),
        ("PUT", "/a%2Fb/c%20d", b"x" * 100_000),
        ("DELETE", "/openapi.json", None),
        ("PATCH", "/v1/models", b"{}"),
        ("GET", "/v1/chat/completions", None),
    ):
        with httpx.Client() as http:
            request = http.build_request(method, gateway.url + "/", headers=headers, content=body)
            request.url = request.url.copy_with(raw_path=path.encode())
            answer = http.send(request)
        assert answer.status_code == 418
        received = answer.json()
        assert received["method"] == method
        assert received["path"] + ("?" + received["query"] if received["query"] else "") == path
        assert received["body"] == (body or b"").decode("latin-1")
        assert received["headers"]["authorization"] == "Bearer theirs"
        assert received["headers"]["x-more"] == "1"
        assert received["headers"]["host"] == f"127.0.0.1:{mirror.port}"
        assert "te" not in received["headers"]
        assert answer.headers["x-request-id"] == "7"
        assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert len(answer.headers.get_list("date")) == 1
        assert "x-hop" not in answer.headers


def test_the_engine_sees_its_own_key_and_no_token_of_the_gateway(
    mirror: Running, start: Callable[..., Running]
) -> None:
    tokens = Tokens([("app", TOKEN)])
    for settings, seen in (
        ({"tokens": tokens}, None),
        ({"tokens": tokens, "upstream_key": "secret"}, "Bearer secret"),
        ({"upstream_key": "secret"}, "Bearer secret"),
    ):
        gateway = start(mirror.url, **settings)
        answer = httpx.get(f"{gateway.url}/x", headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.json()["headers"].get("authorization") == seen
    refused = httpx.get(f"{start(mirror.url, tokens=tokens).url}/x")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")


def test_no_path_leads_outside_the_engine(mirror: Running, start: Callable[..., Running]) -> None:
    gateway = start(f"{mirror.url}/api/v1")
    for path, status in (("/x", 418), ("/../admin", 404), ("/v1/../../admin", 404), ("//elsewhere/x", 418)):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == status, path
        if status == 418:
            received = json.loads(gzip.decompress(answer.read()))
            assert received["path"] == f"/api{path}"
        connection.close()


def test_the_guard_stands_before_the_engine(mirror: Running, start: Callable[..., Running]) -> None:
    gateway = start(mirror.url, max_body_bytes=1000)
    assert httpx.post(f"{gateway.url}/x", content=b"x" * 1001).status_code == 413
    assert httpx.post(f"{gateway.url}/x", content=iter([b"x" * 600] * 2)).status_code == 413
    assert httpx.get(f"{gateway.url}/x", headers={"host": "evil.example"}).status_code == 421
    assert httpx.get(f"{gateway.url}/x", headers={"origin": "http://evil.example"}).status_code == 403


def test_no_engine(start: Callable[..., Running]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    gateway = start(f"http://127.0.0.1:{port}")
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/health")):
        answer = httpx.request(method, gateway.url + path, json=STREAMED)
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "upstream_unreachable"
        assert answer.json()["error"]["type"] == "server_error"


class Scripted:
    """An engine that sends each connection the same bytes, and then stalls or closes it."""

    def __init__(self, answer: bytes, *, stays: bool = False) -> None:
        self._answer, self._stays = answer, stays
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            request = connection.recv(65536)
            # Closing with some of the request unread would reset the connection, the answer and all.
            head, _, body = request.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            while length and len(body) < int(length[1]):
                body += connection.recv(65536)
            connection.sendall(self._answer)
            if self._stays:
                self._connections.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._connections:
            connection.close()


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    started: list[Scripted] = []

    def one(*arguments: Any, **settings: Any) -> Scripted:
        started.append(Scripted(*arguments, **settings))
        return started[-1]

    yield one
    for engine in started:
        engine.close()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n"
FIRST = b'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "hi"}}]}\n\n'


def test_an_engine_that_is_too_slow(start: Callable[..., Running], scripted: Callable[..., Scripted]) -> None:
    gateway = start(scripted(b"", stays=True).url, upstream_timeout_s=0.2)
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/x")):
        answer = httpx.request(method, gateway.url + path, json=STREAMED)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "upstream_timeout"


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n"])
def test_an_engine_that_does_not_speak_http(
    start: Callable[..., Running], scripted: Callable[..., Scripted], answer: bytes
) -> None:
    gateway = start(scripted(answer).url)
    assert httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED).status_code == 502
    assert httpx.get(f"{gateway.url}/v1/models").status_code == 502


@pytest.mark.parametrize(("stays", "code"), [(False, "upstream_unreachable"), (True, "upstream_timeout")])
def test_an_engine_that_breaks_off_a_stream(
    start: Callable[..., Running], scripted: Callable[..., Scripted], stays: bool, code: str
) -> None:
    gateway = start(scripted(HEAD + FIRST, stays=stays).url, upstream_timeout_s=0.5)
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED)
    *_, word, error = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    assert word["choices"][0]["delta"] == {"content": "hi"}
    assert error["error"]["code"] == code
    with pytest.raises(httpx.RemoteProtocolError):  # relayed, and so incomplete
        httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED | {"tools": None})


def test_stream_events_that_are_not_chunks(
    start: Callable[..., Running], scripted: Callable[..., Scripted]
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    body = ': ping\n\nevent: odd\ndata: 7\n\ndata: {\n\ndata: {"error": {"message": "broken"}}\n\n'
    text = 'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "a\u2028b"}}]}\n\n'
    gateway = start(scripted(head + (body + text).encode()).url)
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=STREAMED)
    events = answer.text.split("\n\n")
    assert "\n\n".join(events[1:-2]) + "\n\n" == body
    assert json.loads(events[-2][6:])["choices"][0]["delta"]["content"] == "a\u2028b"


@pytest.mark.parametrize(
    "upstream",
    [
        "",
        "localhost:8000",
        "ftp://x",
        "http://",
        "http://u:p@x",
        "http://x?y",
        "http://x:99999",
        "http://x:0",
        "http://[::1",
        "http://x:y",
    ],
)
def test_invalid_addresses(upstream: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the address of an engine"):
        GatewayConfig(upstream=upstream).check()


@pytest.mark.parametrize(
    ("upstream", "root"),
    [
        ("http://x:1", "http://x:1/"),
        ("http://x/v1", "http://x/"),
        ("https://x/api/v1/", "https://x/api"),
    ],
)
def test_the_root_of_an_engine(upstream: str, root: str) -> None:
    assert str(GatewayConfig(upstream=upstream).root()) == root


def test_an_address_that_others_can_reach_needs_a_token() -> None:
    with pytest.raises(ConfigurationError, match="reachable from other machines"):
        GatewayConfig(upstream="http://x", host="0.0.0.0").check()
