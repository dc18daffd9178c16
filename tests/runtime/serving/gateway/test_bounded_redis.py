from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentrt.runtime.serving.gateway import bounded_redis
from agentrt.runtime.serving.gateway.bounded_redis import BoundedRedis


class Work:
    """What Redis is asked: it answers once it may."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.asked = self.ended = 0

    async def __call__(self, _: Any) -> str:
        self.asked += 1
        await self.go_on.wait()
        self.ended += 1
        return "answer"


def test_what_is_late_is_not_cancelled_and_then_not_asked_again() -> None:
    async def run() -> None:
        now = 0.0
        redis, late = BoundedRedis("redis://127.0.0.1:1", clock=lambda: now), Work()
        assert [await redis.ask(late, 0.0) for _ in range(9)] == [None] * 9
        assert (late.asked, late.ended) == (5, 0)
        for later, tries in ((0.9, 5), (1.0, 6), (1.9, 6), (2.0, 7)):  # one for each second
            now = later
            assert [await redis.ask(late, 0.0) for _ in range(3)] == [None] * 3
            assert (late.asked, late.ended) == (tries, 0)
        late.go_on.set()
        await redis.aclose()
        assert late.ended == 7
        now = 3.0
        assert [await redis.ask(late, 60.0) for _ in range(2)] == ["answer"] * 2

    asyncio.run(run())


@pytest.mark.parametrize(("slow_s", "asked_again"), [(60.0, True), (-1.0, False)])
def test_late_answers_show_that_it_works_unless_it_is_slow(
    monkeypatch: pytest.MonkeyPatch, slow_s: float, asked_again: bool
) -> None:
    """A busy machine has several callers wait in vain at once; Redis may be well."""
    monkeypatch.setattr(bounded_redis, "_SLOW_S", slow_s)

    async def run() -> None:
        redis, late = BoundedRedis("redis://127.0.0.1:1", clock=lambda: 0.0), Work()
        assert [await redis.ask(late, 0.0) for _ in range(5)] == [None] * 5
        late.go_on.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert await redis.ask(late, 60.0) == ("answer" if asked_again else None)
        await redis.aclose()

    asyncio.run(run())


def test_an_answer_that_came_while_the_loop_stood_still_counts() -> None:
    async def soon(_: Any) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "answer"

    assert asyncio.run(BoundedRedis("redis://127.0.0.1:1").ask(soon, 0.0)) == "answer"


def test_another_fault_than_of_redis_is_raised() -> None:
    async def wrong(_: Any) -> str:
        raise TypeError("a defect")

    with pytest.raises(TypeError, match="a defect"):
        asyncio.run(BoundedRedis("redis://127.0.0.1:1").ask(wrong, 60.0))
