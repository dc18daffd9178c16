"""What a gateway shows without a token, and to apps that are not the owner's."""

from __future__ import annotations

import socket

import httpx
import pytest

from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, Start

TOKENS = Tokens([("owner", "o" * 20), ("notes", "n" * 20)])
OWNER, NOTES = ({"authorization": f"Bearer {token * 20}"} for token in "on")


def test_the_engine_is_asked_for_its_owner_only(engine: Running, start: Start) -> None:
    gateway = start(engine.url, tokens=TOKENS, upstream_key="secret")
    for headers in ({}, NOTES):
        assert httpx.get(f"{gateway.url}/health", headers=headers).json() == {"status": "ok"}
    assert "sampled_tokens" in httpx.get(f"{gateway.url}/health", headers=OWNER).json()
    assert "agentrt_kv_blocks" in httpx.get(f"{gateway.url}/metrics", headers=OWNER).text
    assert httpx.get(f"{gateway.url}/metrics", headers=NOTES).status_code == 403


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_without_a_token_nothing_reaches_the_engine(start: Start, method: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    gateway = start(f"http://127.0.0.1:{port}", tokens=TOKENS)
    assert httpx.request(method, f"{gateway.url}/health").status_code == 200
    assert httpx.request(method, f"{gateway.url}/health", headers=OWNER).status_code == 502
