"""One stream of frames for any number of pages."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from agentrt.runtime import LocalRuntime, PooledModel
from agentrt.runtime.serving.live import feed as feed_module
from agentrt.runtime.serving.live.feed import MAX_BEHIND, SENDS_PER_S, LiveFeed
from agentrt.runtime.serving.live.frames import Frames


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


def feed_of(new_frames: Any) -> LiveFeed:
    return LiveFeed(new_frames)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "INTERVAL_S", 0.001)


def test_nothing_is_recorded_while_no_page_is_open(runtime: LocalRuntime) -> None:
    feed = LiveFeed(lambda: Frames(lambda: [PooledModel.of(runtime)]))
    outputs = runtime._engine._outputs

    async def watch() -> None:
        assert outputs.traces == ()
        for _ in range(2):
            async with aclosing(feed.events()) as one, aclosing(feed.events()) as other:
                await anext(one)
                await anext(other)
                assert len(outputs.traces) == 1, "one for all pages"
                making = feed._task
            assert making is not None
            await asyncio.wait([making])
            assert (len(feed._pages), outputs.traces) == (0, ())

    asyncio.run(watch())


def test_a_frame_is_encoded_once_and_a_new_page_gets_the_newest_at_once() -> None:
    frames = Counting()
    feed = feed_of(lambda: frames)

    async def watch() -> None:
        async with aclosing(feed.events()) as one:
            first = await anext(one)
            async with aclosing(feed.events()) as other:
                assert await anext(other) == first
                assert frames.made == 1

    asyncio.run(watch())
    assert frames.stopped == 1


def test_a_page_that_does_not_read_is_left_behind() -> None:
    feed = feed_of(Counting)

    async def watch() -> bytes:
        async with aclosing(feed.events()) as slow, aclosing(feed.events()) as fast:
            await anext(slow)
            for _ in range(50):
                await anext(fast)
            (waiting,) = (page for page in feed._pages if page.qsize() > 1)
            assert waiting.qsize() == MAX_BEHIND
            return await anext(slow)

    assert b'"n":1,' not in asyncio.run(watch())


def test_equal_frames_are_not_sent() -> None:
    class Idle(Counting):
        async def next(self) -> dict[str, Any]:
            return {"t": (await super().next())["t"]}

    frames = Idle()
    feed = feed_of(lambda: frames)

    async def watch() -> None:
        async with aclosing(feed.events()) as page:
            assert (await anext(page)).count(b"data: ") == 1
            await frames.many.wait()
            (waiting,) = feed._pages
            assert waiting.empty()

    asyncio.run(watch())


def test_many_pages_get_their_frames_less_often() -> None:
    feed = feed_of(Counting)

    async def watch() -> None:
        pages = [feed.events() for _ in range(1000)]
        for page in pages:
            await anext(page)
        assert len(feed._pages) == 1000
        assert feed.interval_s * SENDS_PER_S == 1000
        for page in pages:
            await page.aclose()
        assert len(feed._pages) == 0

    asyncio.run(watch())


def test_the_end_of_the_server_ends_all_streams() -> None:
    feed = feed_of(Counting)

    async def watch() -> None:
        pages = [feed.events() for _ in range(3)]
        for page in pages:
            await anext(page)
        assert feed.end() == 3
        for page in [*pages, feed.events()]:
            assert [event async for event in page] == []

    asyncio.run(watch())


def test_a_fault_ends_the_streams_and_the_next_page_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    made = [Counting(fault_after=1), Counting()]
    feed = feed_of(lambda: made.pop(0))

    async def watch() -> None:
        events = [event async for event in feed.events()]
        assert len(events) <= 1
        async with aclosing(feed.events()) as page:
            assert await anext(page)

    asyncio.run(watch())
    assert "a fault" in caplog.text
