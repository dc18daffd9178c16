from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentrt.runtime.serving.gateway import bounded_redis
from agentrt.runtime.serving.gateway.bounded_redis import BoundedRedis


def test_what_is_late_is_not_cancelled_and_then_not_asked_again() -> None:
    async def run() -> None:
        now = 0.0
        redis = BoundedRedis("redis://127.0.0.1:1", clock=lambda: now)
        go_on, asked, ended = asyncio.Event(), 0, 0

        async def late(_: Any) -> str:
            nonlocal asked, ended
            asked += 1
            await go_on.wait()
            ended += 1
            return "answer"

        assert [await redis.ask(late, 0.0) for _ in range(9)] == [None] * 9
        assert (asked, ended) == (5, 0)
        for later, tries in ((0.9, 5), (1.0, 6), (1.9, 6), (2.0, 7)):  # one for each second
            now = later
            assert [await redis.ask(late, 0.0) for _ in range(3)] == [None] * 3
            assert (asked, ended) == (tries, 0)
        go_on.set()
        await redis.aclose()
        assert ended == 7
        now = 3.0
        assert await redis.ask(late, 60.0) == "answer"
        assert await redis.ask(late, 60.0) == "answer"

    asyncio.run(run())


@pytest.mark.parametrize(("slow_s", "asked_again"), [(60.0, True), (-1.0, False)])
def test_late_answers_show_that_it_works_unless_it_is_slow(
    monkeypatch: pytest.MonkeyPatch, slow_s: float, asked_again: bool
) -> None:
    """A busy machine has several callers wait in vain at once; Redis may be well."""
    monkeypatch.setattr(bounded_redis, "_SLOW_S", slow_s)

    async def run() -> None:
        redis = BoundedRedis("redis://127.0.0.1:1", clock=lambda: 0.0)
        go_on = asyncio.Event()

        async def late(_: Any) -> str:
            await go_on.wait()
            return "answer"

        assert [await redis.ask(late, 0.0) for _ in range(5)] == [None] * 5
        go_on.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert await redis.ask(late, 60.0) == ("answer" if asked_again else None)
        await redis.aclose()

    asyncio.run(run())


def test_an_answer_that_came_while_the_loop_stood_still_counts() -> None:
    async def run() -> None:
        redis = BoundedRedis("redis://127.0.0.1:1")

        async def soon(_: Any) -> str:
            for _ in range(3):
                await asyncio.sleep(0)
            return "answer"

        assert await redis.ask(soon, 0.0) == "answer"

    asyncio.run(run())


def test_another_fault_than_of_redis_is_raised() -> None:
    async def run() -> None:
        redis = BoundedRedis("redis://127.0.0.1:1")

        async def wrong(_: Any) -> str:
            raise TypeError("a defect")

        with pytest.raises(TypeError, match="a defect"):
            await redis.ask(wrong, 60.0)

    asyncio.run(run())
