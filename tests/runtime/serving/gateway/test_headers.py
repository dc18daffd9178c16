"""Headers of engines and clients that pass the gateway, on each of its routes."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.runtime.serving.gateway.scripted import STREAMED, Script
from tests.runtime.serving.http.serving import Start

KEPT = {
    "cache-control": "no-store",
    "openai-processing-ms": "12",
    "retry-after": "1",
    "vary": "accept-encoding",
    "x-litellm-version": "1",
    "x-ratelimit-remaining-requests": "7",
    "x-request-id": "r",
}
DROPPED = {
    "access-control-allow-credentials": "true",
    "access-control-allow-headers": "*",
    "access-control-allow-methods": "*",
    "Access-Control-Allow-Origin": "*",
    "access-control-allow-private-network": "true",
    "access-control-expose-headers": "*",
    "access-control-max-age": "86400",
    "alt-svc": 'h3="elsewhere:443"',
    "clear-site-data": '"*"',
    "connection": "x-hop, keep-alive",
    "cross-origin-resource-policy": "cross-origin",
    "keep-alive": "timeout=5",
    "link": "</x>; rel=preload",
    "proxy-authenticate": "Basic",
    "refresh": "0; url=http://elsewhere/",
    "server": "engine",
    "service-worker-allowed": "/",
    "Set-Cookie": "session=theirs",
    "set-cookie2": "a=1",
    "strict-transport-security": "max-age=1",
    "timing-allow-origin": "*",
    "www-authenticate": "Basic",
    "x-accel-redirect": "/etc/passwd",
    "x-hop": "1",
    "x-whatever": "1",
}
OWN = {"content-length", "content-type", "date", "transfer-encoding"}

STREAM = b'data: {"id": "e", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
ROUTES = [
    ("GET", "/v1/models", "application/json", b'{"data": []}'),
    ("GET", "/health", "application/json", b"{}"),
    ("POST", "/v1/embeddings", "application/json", b"{}"),
    ("POST", "/v1/chat/completions", "text/event-stream", STREAM),
    ("POST", "/v1/chat/completions", "application/json", b"{}"),
]


def answer_of(kind: str, body: bytes) -> bytes:
    fields = {**KEPT, **DROPPED, "content-type": kind, "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body


@pytest.mark.parametrize(("method", "path", "kind", "body"), ROUTES)
def test_only_the_headers_of_the_list_are_relayed(
    start: Start, scripted: Script, method: str, path: str, kind: str, body: bytes
) -> None:
    gateway = start(scripted(answer_of(kind, body)).url)
    answer = httpx.request(method, gateway.url + path, json=STREAMED)
    assert answer.status_code == 200
    assert {name: answer.headers.get(name) for name in KEPT} == KEPT
    assert set(answer.headers) <= KEPT.keys() | OWN
    assert len(answer.headers.get_list("date")) == 1


@pytest.mark.parametrize(("method", "path", "kind", "body"), ROUTES)
def test_the_policy_for_web_pages_is_the_gateways_own(
    start: Start, scripted: Script, method: str, path: str, kind: str, body: bytes
) -> None:
    origin = "https://chat.example"
    gateway = start(scripted(answer_of(kind, body)).url, cors_origins=frozenset([origin]))
    answer = httpx.request(method, gateway.url + path, json=STREAMED, headers={"origin": origin})
    found = {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}
    assert found == {
        "access-control-allow-origin": origin,
        "access-control-expose-headers": "x-agentrt-priority, retry-after, x-should-retry",
    }
    assert answer.headers["vary"] == "accept-encoding, Origin"
    assert "set-cookie" not in answer.headers


def test_an_error_and_a_redirection_keep_what_clients_need(start: Start, scripted: Script) -> None:
    body = json.dumps({"error": {"message": "slow down"}}).encode()
    busy = answer_of("application/json", body).replace(b"200 OK", b"429 Busy")
    answer = httpx.post(f"{start(scripted(busy).url).url}/v1/completions", json={})
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (429, "1", body)
    moved = busy.replace(b"429 Busy\r\n", b"307 Moved\r\nlocation: /elsewhere\r\n")
    answer = httpx.post(f"{start(scripted(moved).url).url}/v1/completions", json={})
    assert (answer.status_code, answer.headers["location"]) == (307, "/elsewhere")


def test_cookies_of_a_browser_do_not_reach_the_engine(start: Start, scripted: Script) -> None:
    """A browser sends those of all servers of the gateway's host, whatever their port."""
    engine = scripted(answer_of("application/json", b"{}"))
    headers = {"cookie": "session=of another server", "x-more": "1"}
    httpx.post(f"{start(engine.url).url}/v1/completions", json={}, headers=headers)
    (head,) = engine.heads
    assert b"x-more: 1" in head
    assert b"another server" not in head
