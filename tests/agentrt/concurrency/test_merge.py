"""`merge`: every item once and in its stream's order, errors by the policy, all streams closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.concurrency.merge import merge
from agentrt.testing import run_in_virtual_time
from tests.agentrt.loops import in_virtual_time

PAUSES = st.lists(st.sampled_from([0.0, 1.0, 2.0]), max_size=5)


class Failure(Exception):
    pass


class Source:
    """Yields its position after each pause, and then fails if it is to."""

    def __init__(self, pauses: list[float], *, fails: bool = False) -> None:
        self.closed = 0
        self.produced = 0
        self._pauses = pauses
        self._fails = fails

    async def items(self) -> AsyncIterator[int]:
        try:
            for position, pause in enumerate(self._pauses):
                await asyncio.sleep(pause)
                self.produced += 1
                yield position
            if self._fails:
                raise Failure
        finally:
            self.closed += 1


@given(st.lists(PAUSES, max_size=4))
def test_every_item_comes_once_in_the_order_of_its_stream(all_pauses: list[list[float]]) -> None:
    sources = [Source(pauses) for pauses in all_pauses]

    async def main() -> list[tuple[int, int]]:
        return [item async for item in merge([source.items() for source in sources])]

    merged = run_in_virtual_time(main)
    for index, pauses in enumerate(all_pauses):
        assert [item for number, item in merged if number == index] == list(range(len(pauses)))
    assert all(source.closed == 1 for source in sources)


@given(st.lists(st.tuples(PAUSES, st.booleans()), min_size=1, max_size=4), st.booleans())
def test_errors_by_the_policy(streams: list[tuple[list[float], bool]], errors_last: bool) -> None:
    sources = [Source(pauses, fails=fails) for pauses, fails in streams]
    merged: list[tuple[int, int]] = []

    async def main() -> None:
        async for item in merge([source.items() for source in sources], errors_last=errors_last):
            merged.append(item)

    if any(fails for _, fails in streams):
        with pytest.raises(Failure):
            run_in_virtual_time(main)
    else:
        run_in_virtual_time(main)
    if errors_last:
        assert len(merged) == sum(len(pauses) for pauses, _ in streams)
    # A generator that was never started has nothing to close.
    assert all(source.closed == 1 for source in sources if source.produced)


@pytest.mark.parametrize("others", [0, 2])
@in_virtual_time
async def test_leaving_closes_the_streams(others: int) -> None:
    sources = [Source([0.0, 0.0]), *(Source([0.0, 9.0, 9.0]) for _ in range(others))]
    async with aclosing(merge([source.items() for source in sources])) as items:
        async for _ in items:
            await asyncio.sleep(1)
            break
    assert anyio.current_time() == 1
    assert all(source.closed == 1 for source in sources)


@pytest.mark.parametrize("by_scope", [True, False])
def test_cancelling_the_consumer_ends_the_streams_before_it_goes_on(by_scope: bool) -> None:
    sources = [Source([9.0]), Source([9.0])]
    closed_at: list[int] = []

    async def consume() -> None:
        try:
            async for _ in merge([source.items() for source in sources]):
                raise AssertionError("nothing should come")
        finally:
            closed_at.append(sum(source.closed for source in sources))

    async def main() -> None:
        if by_scope:
            with anyio.move_on_after(1):
                await consume()
            return
        task = asyncio.create_task(consume())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_in_virtual_time(main)
    assert closed_at == [2]


@in_virtual_time
async def test_a_slow_consumer_holds_the_streams_back() -> None:
    sources = [Source([0.0] * 5) for _ in range(2)]
    ahead: list[int] = []
    taken = 0
    async for _ in merge([source.items() for source in sources]):
        taken += 1
        await asyncio.sleep(1)
        ahead.append(sum(source.produced for source in sources) - taken)
    assert max(ahead) <= 3  # one in the queue, and one that each stream waits to put there


@pytest.mark.parametrize("errors_last", [True, False])
@in_virtual_time
async def test_a_stream_that_cancels_itself_ends_alone(errors_last: bool) -> None:
    async def cancelled() -> AsyncIterator[int]:
        raise asyncio.CancelledError
        yield 0

    streams = [cancelled(), Source([0.0, 1.0]).items()]
    assert ([item async for item in merge(streams, errors_last=errors_last)]) == [(1, 0), (1, 1)]


@in_virtual_time
async def test_an_iterator_that_cannot_be_closed() -> None:
    class Count:
        def __init__(self) -> None:
            self.left = 2

        def __aiter__(self) -> Count:
            return self

        async def __anext__(self) -> int:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return self.left

    assert sorted([item async for item in merge([Count(), Count()])]) == [(0, 0), (0, 1), (1, 0), (1, 1)]
