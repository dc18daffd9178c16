"""Relayed requests, and what a gateway shows without asking its engine."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from agentrt.runtime.serving.http.config import ListenConfig
from tests.runtime.serving.gateway.conftest import gateway_before
from tests.runtime.serving.gateway.scripted import CHAT, STREAMED
from tests.runtime.serving.http.serving import MAIL, NOTES, TOKENS, Running, Start, listening, until

pytestmark = pytest.mark.socket

ORIGIN = {"origin": "https://chat.example"}


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
        headers = {"content-encoding": "gzip", "x-request-id": "7"}
        return Response(gzip.compress(json.dumps(received).encode()), 418, headers)

    app.add_route("/{path:path}", describe, methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    with listening(app, ListenConfig(port=0, drain_s=1)) as server:
        yield server


@pytest.fixture(scope="module")
def relaying(mirror: Running) -> Iterator[Running]:
    with gateway_before(f"{mirror.url}/v1/") as gateway:
        yield gateway


@pytest.fixture(scope="module", params=["", "/api/v1"])
def below(request: pytest.FixtureRequest, mirror: Running) -> Iterator[tuple[Running, str]]:
    """A gateway whose engine is below this path, and the path."""
    with gateway_before(mirror.url + request.param, upstream_key="secret") as gateway:
        yield gateway, request.param.removesuffix("/v1")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/metrics", None),
        ("POST", "/v1/embeddings?x=1&x=%2F", b"\x00\xff"),
        ("POST", "/v1/completions", b'{"prompt": "x", "stream": true}'),
        ("POST", "/tokenize", b'{"prompt": "x"}'),
        ("POST", "/api/chat", b'{"messages": []}'),
        ("POST", CHAT, b'{"stream": false}'),
        ("POST", CHAT, json.dumps(STREAMED).encode()),
        ("PUT", "/a%2Fb/c%20d", b"x" * 100_000),
        ("DELETE", "/openapi.json", None),
        ("PATCH", "/v1/models", b"{}"),
        ("GET", CHAT, None),
    ],
)
def test_everything_is_relayed(
    mirror: Running, relaying: Running, method: str, path: str, body: bytes | None
) -> None:
    headers = {"authorization": "Bearer theirs", "x-more": "1", "te": "trailers", "accept-encoding": "gzip"}
    url = httpx.URL(relaying.url).copy_with(raw_path=path.encode())
    answer = httpx.request(method, url, headers=headers, content=body)
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


def test_the_engine_sees_its_own_key_and_no_token_of_the_gateway(mirror: Running, start: Start) -> None:
    for settings, seen in (
        ({"tokens": TOKENS}, None),
        ({"tokens": TOKENS, "upstream_key": "secret"}, "Bearer secret"),
        ({"upstream_key": "secret"}, "Bearer secret"),
    ):
        headers = MAIL | {"x-api-key": "m" * 20}
        answer = httpx.get(f"{start(mirror.url, **settings).url}/version", headers=headers)
        assert "x-api-key" not in answer.json()["headers"]
        assert answer.json()["headers"].get("authorization") == seen
    refused = httpx.get(f"{start(mirror.url, tokens=TOKENS).url}/x")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")


def raw_get(gateway: Running, path: str) -> tuple[int, bytes]:
    """Request ``path`` as it is, which other clients normalise; return the status and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port)) as connection:
        connection.putrequest("GET", path)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    "path",
    [
        "/../admin", "/v1/../../admin", "/v1/..", "/%2e%2e/admin", "/.%2E/admin", "/v1/%2e%2e/%2e%2e/admin",
        "/v1/..%2f..%2fadmin", "/\\..\\admin", "/..%5cadmin", "/..;/admin", "/..;a=b/admin",
        "/%2e%2e%3b/admin", "/a;../admin", "/..%3fadmin", "/..%23/admin", "/..%00/admin", "/.%09.%20/admin",
        "/%252e%252e/admin", "/v1/..%252f..%25252fadmin", "/%" + "25" * 10_000 + "2e.",
        "/%c0%ae%c0%ae/admin", "/%e0%80%ae./admin", "/v1/models/../../admin",
    ],
)  # fmt: skip
def test_no_path_leads_outside_the_engine(below: tuple[Running, str], path: str) -> None:
    status, body = raw_get(below[0], path)
    assert (status, json.loads(body)["error"]["code"]) == (404, "unknown_url")


@pytest.mark.parametrize(
    "path",
    ["/x", "//elsewhere/x", "/v1/..a/.b./...", '/a|b^`{}"[]', "/a%zz?x=/../%2e%2e'", "/:80@elsewhere/"],
)
def test_other_paths_reach_the_engine_unchanged(below: tuple[Running, str], path: str) -> None:
    gateway, root = below
    received = json.loads(gzip.decompress(raw_get(gateway, path)[1]))
    assert received["path"] + ("?" + received["query"] if received["query"] else "") == root + path


@pytest.mark.parametrize("path", ["/a#b", "/..#/x", "/x?a=#"])
def test_a_fragment_is_refused(relaying: Running, path: str) -> None:
    status, body = raw_get(relaying, path)
    assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_url")


def test_the_guard_stands_before_the_engine(mirror: Running, start: Start) -> None:
    gateway = start(mirror.url, max_body_bytes=1000, cors_origins=frozenset(ORIGIN.values()))
    assert httpx.post(f"{gateway.url}/x", content=b"x" * 1001).status_code == 413
    assert httpx.post(f"{gateway.url}/x", content=iter([b"x" * 600] * 2)).status_code == 413
    assert httpx.get(f"{gateway.url}/x", headers={"host": "evil.example"}).status_code == 421
    assert httpx.get(f"{gateway.url}/x", headers={"origin": "http://evil.example"}).status_code == 403
    answer = httpx.post(f"{gateway.url}/v1/completions", content=b"{}", headers=ORIGIN)
    assert answer.status_code == 418
    assert answer.headers["access-control-allow-origin"] == ORIGIN["origin"]
    assert "origin" not in answer.json()["headers"], "the engine would refuse it as another site's"
    asked = {"access-control-request-method": "POST", **ORIGIN}
    assert httpx.options(f"{gateway.url}/v1/completions", headers=asked).status_code == 200


def test_no_engine(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    gateway = start(f"http://127.0.0.1:{port}", tokens=TOKENS)
    for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/health")):
        answer = httpx.request(method, gateway.url + path, json=STREAMED, headers=MAIL)
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "upstream_unreachable"
        assert answer.json()["error"]["type"] == "server_error"
    for method in ("GET", "HEAD"):  # without a token nothing reaches the engine
        assert httpx.request(method, f"{gateway.url}/health").status_code == 200


def test_the_engine_s_health_is_shown_to_its_owner_only(engine: Running, start: Start) -> None:
    gateway = start(engine.url, tokens=TOKENS, upstream_key="secret")
    for headers in ({}, NOTES):
        assert httpx.get(f"{gateway.url}/health", headers=headers).json() == {"status": "ok"}
    assert "sampled_tokens" in httpx.get(f"{gateway.url}/health", headers=MAIL).json()
    assert "agentrt_kv_blocks" in httpx.get(f"{gateway.url}/metrics", headers=MAIL).text
    assert httpx.get(f"{gateway.url}/metrics", headers=NOTES).status_code == 403


@pytest.mark.parametrize("path", [CHAT, "/x"])
def test_a_client_that_leaves_within_its_body_is_no_fault(
    relaying: Running, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with relaying.connect() as connection:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{"
        connection.sendall(head.encode())
    until(lambda: relaying.connections == 0)
    assert httpx.get(f"{relaying.url}/v1/models").status_code == 418
    assert "Traceback" not in caplog.text
    assert "Exception in ASGI" not in caplog.text
