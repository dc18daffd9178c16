"""Who may read the live page and its events, and how long: one stream of frames for any number of pages."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime, PooledModel
from agentrt.runtime.serving.live import feed as feed_module
from agentrt.runtime.serving.live.feed import MAX_BEHIND, SENDS_PER_S, LiveFeed
from agentrt.runtime.serving.live.frames import Frames
from agentrt.runtime.serving.live.routes import PUBLIC_PATHS
from tests.patience import in_event_loop
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.live.conftest import OTHER, OWNER, TOKENS, frames_of
from tests.runtime.serving.server.conftest import running

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
        models = (frame["models"][0] for frame in frames)
        # The counts of a frame may be older than its answers.
        model = next(each for each in models if each["answered"] and each["counts"]["answered_calls"])
    assert model["answered"][0]["tools"] == ["get_weather"]


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


@pytest.mark.parametrize("path", ["/", "/live/page.js"])
def test_other_servers_have_no_public_paths(path: str) -> None:
    from agentrt.runtime.serving.gateway import GatewayConfig, create_gateway
    from tests.runtime.serving.http.serving import listening

    config = GatewayConfig(upstream="http://127.0.0.1:1", port=0, tokens=TOKENS)
    with listening(create_gateway(config), config) as gateway:
        assert httpx.get(gateway.url + path).status_code == 401


class Counting:
    """Frames that are different each time."""

    def __init__(self, fault_after: int = 1_000_000) -> None:
        self.made = self.stopped = 0
        self.many = asyncio.Event()
        self._fault_after = fault_after

    async def next(self) -> dict[str, Any]:
        self.made += 1
        if self.made == 20:
            self.many.set()
        if self.made > self._fault_after:
            raise RuntimeError("a fault")
        return {"t": float(self.made), "value": self.made}

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def feed_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes feeds of many frames a second."""
    monkeypatch.setattr(feed_module, "INTERVAL_S", 0.001)
    return LiveFeed


@in_event_loop
async def test_nothing_is_recorded_while_no_page_is_open(runtime: LocalRuntime) -> None:
    feed = LiveFeed(lambda: Frames(lambda: [PooledModel.of(runtime)]))
    outputs = runtime._engine._outputs
    assert outputs.traces == ()
    for _ in range(2):
        async with aclosing(feed.events()) as one, aclosing(feed.events()) as other:
            await anext(one)
            await anext(other)
            assert len(outputs.traces) == 1, "one for all pages"
            making = feed._task
        await asyncio.wait([making])
        assert (feed.pages, outputs.traces) == (0, ())


@in_event_loop
async def test_a_frame_is_encoded_once_and_a_new_page_gets_the_newest_at_once(feed_of: Any) -> None:
    frames = Counting()
    feed = feed_of(lambda: frames)
    async with aclosing(feed.events()) as one:
        first = await anext(one)
        async with aclosing(feed.events()) as other:
            assert await anext(other) == first
            assert frames.made == 1
        making = feed._task
    await asyncio.wait([making])
    assert frames.stopped == 1


@pytest.mark.slow
@in_event_loop
async def test_a_page_that_does_not_read_is_left_behind(feed_of: Any) -> None:
    feed = feed_of(Counting)
    async with aclosing(feed.events()) as slow, aclosing(feed.events()) as fast:
        await anext(slow)
        for _ in range(50):
            await anext(fast)
        (waiting,) = (page for page in feed._pages if page.qsize() > 1)
        assert waiting.qsize() == MAX_BEHIND
        assert b'"n":1,' not in await anext(slow)


@in_event_loop
async def test_equal_frames_are_not_sent(feed_of: Any) -> None:
    class Idle(Counting):
        async def next(self) -> dict[str, Any]:
            return {"t": (await super().next())["t"]}

    frames = Idle()
    feed = feed_of(lambda: frames)
    async with aclosing(feed.events()) as page:
        assert (await anext(page)).count(b"data: ") == 1
        await frames.many.wait()
        (waiting,) = feed._pages
        assert waiting.empty()


@in_event_loop
async def test_many_pages_get_their_frames_less_often(feed_of: Any) -> None:
    feed = feed_of(Counting)
    pages = [feed.events() for _ in range(1000)]
    for page in pages:
        await anext(page)
    assert feed.pages == 1000
    assert feed.interval_s * SENDS_PER_S == 1000
    for page in pages:
        await page.aclose()
    assert feed.pages == 0


@in_event_loop
async def test_the_end_of_the_server_ends_all_streams(feed_of: Any) -> None:
    feed = feed_of(Counting)
    pages = [feed.events() for _ in range(3)]
    for page in pages:
        await anext(page)
    assert feed.end() == 3
    for page in [*pages, feed.events()]:
        assert [event async for event in page] == []


@in_event_loop
async def test_a_fault_ends_the_streams_and_the_next_page_begins_again(
    feed_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = [Counting(fault_after=1), Counting()]
    feed = feed_of(lambda: made.pop(0))
    events = [event async for event in feed.events()]
    assert len(events) <= 1
    async with aclosing(feed.events()) as page:
        assert await anext(page)
    assert "a fault" in caplog.text
