"""Who may read the live page and its events, and how long."""

from __future__ import annotations

import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.live.routes import PUBLIC_PATHS
from tests.runtime.serving.http.serving import Running, Start, until
from tests.runtime.serving.http.test_slow_readers import connect
from tests.runtime.serving.live.conftest import OTHER, OWNER, TOKENS, frames_of
from tests.runtime.serving.server.conftest import HELLO, running

ASK = b"GET /live/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer " + b"o" * 20 + b"\r\n\r\n"


def test_the_page_is_for_everybody_and_what_it_shows_for_the_owner(server: Running) -> None:
    for path in PUBLIC_PATHS:
        assert httpx.get(server.url + path).status_code == 200
    assert httpx.head(server.url).status_code == 200
    assert httpx.post(server.url).status_code == 401
    events = f"{server.url}/live/events"
    assert httpx.get(events).status_code == 401
    refused = httpx.get(events, headers=OTHER)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "owner_only")
    for path in ("/live/events?token=" + "o" * 20, "//live/events", "/live/../live/events"):
        assert httpx.get(server.url + path).status_code == 401
    with httpx.stream("GET", events, headers=OWNER) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-store"
        assert next(frames_of(response))["models"][0]["name"] == "nano"


def test_no_script_but_the_servers_own_may_run(server: Running) -> None:
    for path in PUBLIC_PATHS:
        policy = httpx.get(server.url + path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
    text = httpx.get(server.url).text
    assert "://" not in text, "nothing is loaded from elsewhere"
    assert "<script>" not in text


def test_what_other_apps_do_is_shown(server: Running) -> None:
    with httpx.stream("GET", f"{server.url}/live/events", headers=OWNER, timeout=60) as response:
        frames = frames_of(response)
        next(frames)
        body = {"model": "nano", "messages": HELLO, "max_tokens": 3}
        httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=OTHER, timeout=60)
        ended = next(each for frame in frames for each in frame["models"][0]["ended"])
    assert (ended["app"], ended["class"]) == ("<img/src=x/onerror=window.ran=1>", "reactive")


def test_answers_from_the_tool_cache_are_shown(server: Running, gate: Any, weather_tool: Any) -> None:
    body = {
        "model": "nano",
        "messages": [{"role": "user", "content": "What is the weather in Ljubljana?"}],
        "tools": [weather_tool],
        "max_tokens": 80,
        "stream": True,
    }
    output = {"name": "get_weather", "params": {"city": "Ljubljana"}, "output": "12 C, rain"}
    with (
        httpx.stream("GET", f"{server.url}/live/events", headers=OWNER, timeout=60) as events,
        httpx.stream(
            "POST", f"{server.url}/v1/chat/completions", json=body, headers=OTHER, timeout=60
        ) as answer,
    ):
        frames, lines = frames_of(events), answer.iter_lines()
        id = next(line for line in lines if line.startswith("data: ")).split('"')[3]
        submitted = httpx.post(f"{server.url}/v1/cache-tool-output/{id}", json=[output], headers=OTHER)
        assert submitted.json() == {"cached": 1}
        gate.open()
        list(lines)
        model = next(frame["models"][0] for frame in frames if frame["models"][0]["answered"])
    assert model["answered"][0]["tools"] == ["get_weather"]
    assert model["counts"]["answered_calls"] >= 1


def test_an_open_page_does_not_delay_the_end_of_the_server(runtime: LocalRuntime) -> None:
    with ExitStack() as client:
        thread = client.enter_context(ThreadPoolExecutor(1))
        with running(runtime, drain_s=3600) as server:
            events = httpx.stream("GET", f"{server.url}/live/events", timeout=60)
            frames = frames_of(client.enter_context(events))
            next(frames)
            rest = thread.submit(list, frames)
        # The server has ended, and waited neither for the page nor for the time of its requests.
        assert isinstance(rest.result(30), list)


@pytest.mark.check
def test_a_thousand_pages_and_one_that_does_not_read(start: Start) -> None:
    server = start(tokens=TOKENS, write_timeout_s=0.5)
    stuck = connect(server, ASK)
    pages: list[socket.socket] = []
    answers: Counter[bytes] = Counter()
    try:
        for _ in range(1000):
            pages.append(server.connect())
            pages[-1].sendall(ASK)
        for page in pages:
            received = more = page.recv(65536)
            while more and received[9:12] == b"200" and b'data: {"n":' not in received:
                received += (more := page.recv(65536))
            answers[received[9:12]] += 1
        # As many as there are places for this app; the others are told so, and the other app has its own.
        assert set(answers) <= {b"200", b"429"}
        assert answers.total() == 1000
        assert answers[b"200"] > 100
        assert httpx.get(f"{server.url}/live/events", headers=OTHER).status_code == 403
    finally:
        for page in (*pages, stuck):
            page.close()
    until(lambda: server.connections == 0)


@pytest.mark.parametrize("path", ["/", "/live/page.js"])
def test_other_servers_have_no_public_paths(path: str) -> None:
    from agentrt.runtime.serving.gateway import GatewayConfig, create_gateway
    from tests.runtime.serving.http.serving import listening

    config = GatewayConfig(upstream="http://127.0.0.1:1", port=0, tokens=TOKENS)
    with listening(create_gateway(config), config) as gateway:
        assert httpx.get(gateway.url + path).status_code == 401
