"""Relayed requests."""

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

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.gateway import GatewayConfig
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.gateway.scripted import STREAMED
from tests.runtime.serving.http.serving import Running, Start, listening, until

TOKEN = "t" * 20


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


def test_everything_is_relayed(mirror: Running, start: Start) -> None:
    gateway = start(f"{mirror.url}/v1/")
    headers = {"authorization": "Bearer theirs", "x-more": "1", "te": "trailers", "accept-encoding": "gzip"}
    for method, path, body in (
        ("GET", "/metrics", None),
        ("POST", "/v1/embeddings?x=1&x=%2F", b"\x00\xff"),
        ("POST", "/v1/completions", b'{"prompt": "x", "stream": true}'),
        ("POST", "/tokenize", b'{"prompt": "x"}'),
        ("POST", "/api/chat", b'{"messages": []}'),
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


def test_the_engine_sees_its_own_key_and_no_token_of_the_gateway(mirror: Running, start: Start) -> None:
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


def raw_get(port: int, path: str) -> tuple[int, bytes]:
    """Request ``path`` as it is, which other clients normalise; return the status and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.putrequest("GET", path)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    "path",
    [
        "/../admin",
        "/v1/../../admin",
        "/v1/..",
        "/%2e%2e/admin",
        "/.%2E/admin",
        "/v1/%2e%2e/%2e%2e/admin",
        "/v1/..%2f..%2fadmin",
        "/\\..\\admin",
        "/..%5cadmin",
        "/..;/admin",
        "/..;a=b/admin",
        "/%2e%2e%3b/admin",
        "/a;../admin",
        "/..%3fadmin",
        "/..%23/admin",
        "/..%00/admin",
        "/.%09.%20/admin",
        "/%252e%252e/admin",
        "/v1/..%252f..%25252fadmin",
        "/%" + "25" * 10_000 + "2e.",
        "/%c0%ae%c0%ae/admin",
        "/%e0%80%ae./admin",
        "/v1/models/../../admin",
    ],
)
def test_no_path_leads_outside_the_engine(mirror: Running, start: Start, path: str) -> None:
    for root in ("", "/api/v1"):
        status, body = raw_get(start(mirror.url + root, upstream_key="secret").port, path)
        assert (status, json.loads(body)["error"]["code"]) == (404, "unknown_url")


@pytest.mark.parametrize(
    "path",
    ["/x", "//elsewhere/x", "/v1/..a/.b./...", '/a|b^`{}"[]', "/a%zz?x=/../%2e%2e'", "/:80@elsewhere/"],
)
def test_other_paths_reach_the_engine_unchanged(mirror: Running, start: Start, path: str) -> None:
    _, body = raw_get(start(f"{mirror.url}/api/v1").port, path)
    received = json.loads(gzip.decompress(body))
    assert received["path"] + ("?" + received["query"] if received["query"] else "") == f"/api{path}"


@pytest.mark.parametrize("path", ["/a#b", "/..#/x", "/x?a=#"])
def test_a_fragment_is_refused(mirror: Running, start: Start, path: str) -> None:
    status, body = raw_get(start(mirror.url).port, path)
    assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_url")


def test_the_guard_stands_before_the_engine(mirror: Running, start: Start) -> None:
    gateway = start(mirror.url, max_body_bytes=1000)
    assert httpx.post(f"{gateway.url}/x", content=b"x" * 1001).status_code == 413
    assert httpx.post(f"{gateway.url}/x", content=iter([b"x" * 600] * 2)).status_code == 413
    assert httpx.get(f"{gateway.url}/x", headers={"host": "evil.example"}).status_code == 421
    assert httpx.get(f"{gateway.url}/x", headers={"origin": "http://evil.example"}).status_code == 403


def test_pages_of_allowed_origins(mirror: Running, start: Start) -> None:
    origin = {"origin": "https://chat.example"}
    gateway = start(mirror.url, cors_origins=frozenset(origin.values()))
    answer = httpx.post(f"{gateway.url}/v1/completions", content=b"{}", headers=origin)
    assert answer.status_code == 418
    assert answer.headers["access-control-allow-origin"] == origin["origin"]
    assert "origin" not in answer.json()["headers"], "the engine would refuse it as another site's"
    asked = {"access-control-request-method": "POST", **origin}
    assert httpx.options(f"{gateway.url}/v1/completions", headers=asked).status_code == 200
    other = httpx.post(f"{gateway.url}/v1/completions", headers={"origin": "https://evil.example"})
    assert other.status_code == 403


def test_no_engine(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    gateway = start(f"http://127.0.0.1:{port}")
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/health")):
        answer = httpx.request(method, gateway.url + path, json=STREAMED)
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "upstream_unreachable"
        assert answer.json()["error"]["type"] == "server_error"


def test_an_address_that_others_can_reach_needs_a_token() -> None:
    with pytest.raises(ConfigurationError, match="reachable from other machines"):
        GatewayConfig(upstream="http://x", host="0.0.0.0").check()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/x"])
def test_a_client_that_leaves_within_its_body_is_no_fault(
    mirror: Running, start: Start, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = start(f"{mirror.url}/v1")
    with gateway.connect() as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{".encode()
        )
    until(lambda: gateway.connections == 0)
    assert httpx.get(f"{gateway.url}/v1/models").status_code == 418
    assert "Traceback" not in caplog.text
    assert "Exception in ASGI" not in caplog.text
