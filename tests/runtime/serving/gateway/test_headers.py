"""Headers of engines and clients that pass the gateway, on each of its routes."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.runtime.serving.gateway.scripted import CHAT, STOP, STREAMED, Play, Scripted
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
DROPPED = [
    "access-control-allow-credentials", "access-control-allow-headers", "access-control-allow-methods",
    "Access-Control-Allow-Origin", "access-control-allow-private-network", "access-control-expose-headers",
    "access-control-max-age", "alt-svc", "clear-site-data", "cross-origin-resource-policy", "keep-alive",
    "link", "proxy-authenticate", "refresh", "server", "service-worker-allowed", "Set-Cookie",
    "set-cookie2", "strict-transport-security", "timing-allow-origin", "www-authenticate",
    "x-accel-redirect", "x-hop", "x-whatever",
]  # fmt: skip
OWN = {"content-length", "content-type", "date", "transfer-encoding"}
ROUTES = [
    ("GET", "/v1/models", "application/json", b'{"data": []}'),
    ("GET", "/health", "application/json", b"{}"),
    ("POST", "/v1/embeddings", "application/json", b"{}"),
    ("POST", CHAT, "text/event-stream", STOP),
    ("POST", CHAT, "application/json", b"{}"),
]


def answer_of(kind: str, body: bytes) -> bytes:
    fields = {**KEPT, **dict.fromkeys(DROPPED, "*"), "connection": "x-hop, keep-alive"}
    fields |= {"content-type": kind, "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body


@pytest.mark.parametrize(("method", "path", "kind", "body"), ROUTES)
def test_only_the_headers_of_the_list_are_relayed(
    play: Play, method: str, path: str, kind: str, body: bytes
) -> None:
    gateway = play(answer_of(kind, body))
    answer = httpx.request(method, gateway.url + path, json=STREAMED)
    assert answer.status_code == 200
    assert {name: answer.headers.get(name) for name in KEPT} == KEPT
    assert set(answer.headers) <= KEPT.keys() | OWN
    assert len(answer.headers.get_list("date")) == 1
    assert answer.headers.get_list("content-type") == [kind]


def test_the_policy_for_web_pages_is_the_gateways_own(start: Start, fake_engine: Scripted) -> None:
    origin = "https://chat.example"
    gateway = start(fake_engine.url, cors_origins=frozenset([origin]))
    for method, path, kind, body in ROUTES:
        fake_engine.play(answer_of(kind, body))
        answer = httpx.request(method, gateway.url + path, json=STREAMED, headers={"origin": origin})
        found = {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}
        assert found == {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": "x-agentrt-priority, retry-after, x-should-retry",
        }
        assert answer.headers["vary"] == "accept-encoding, Origin"
        assert "set-cookie" not in answer.headers


def test_an_error_and_a_redirection_keep_what_clients_need(play: Play) -> None:
    body = json.dumps({"error": {"message": "slow down"}}).encode()
    busy = answer_of("application/json", body).replace(b"200 OK", b"429 Busy")
    answer = httpx.post(f"{play(busy).url}/v1/completions", json={})
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (429, "1", body)
    moved = busy.replace(b"429 Busy\r\n", b"307 Moved\r\nlocation: /elsewhere\r\n")
    answer = httpx.post(f"{play(moved).url}/v1/completions", json={})
    assert (answer.status_code, answer.headers["location"]) == (307, "/elsewhere")


def test_cookies_of_a_browser_do_not_reach_the_engine(play: Play, fake_engine: Scripted) -> None:
    """A browser sends those of all servers of the gateway's host, whatever their port."""
    headers = {"cookie": "session=of another server", "x-more": "1"}
    httpx.post(f"{play(answer_of('application/json', b'{}')).url}/v1/completions", json={}, headers=headers)
    (head,) = fake_engine.heads
    assert b"x-more: 1" in head
    assert b"another server" not in head
