"""`Handover`: every reader gets every item in order, and then the error; a loop is woken once a batch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import aclosing, closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.concurrency.handover import Handover, produced_elsewhere, produced_in_thread
from agentrt.concurrency.threads import start_in_thread
from tests.agentrt.loops import on_a_loop
from tests.patience import PATIENCE_S


async def items_of(handover: Handover[int]) -> list[int]:
    return [item async for batch in handover.batches() for item in batch]


def items_of_blocking(handover: Handover[int]) -> list[int]:
    return [item for batch in handover.batches_blocking() for item in batch]


@given(before=st.integers(0, 5), after=st.integers(0, 50), tasks=st.integers(0, 3), threads=st.integers(0, 2))
def test_every_reader_gets_every_item_in_order(before: int, after: int, tasks: int, threads: int) -> None:
    handover = Handover[int]()
    for number in range(before):
        handover.put(number)

    def produce() -> None:
        for number in range(before, before + after):
            handover.put(number)
        handover.close()
        handover.put(-1)

    async def main() -> list[list[int]]:
        blocking = [start_in_thread(lambda: items_of_blocking(handover), name="test") for _ in range(threads)]
        readers = [asyncio.create_task(items_of(handover)) for _ in range(tasks)]
        await asyncio.sleep(0)
        start_in_thread(produce, name="test")
        read = await asyncio.gather(*readers)
        return read + [future.result(PATIENCE_S) for future in blocking]

    assert asyncio.run(main()) == [list(range(before + after))] * (tasks + threads)


@on_a_loop
async def test_a_loop_is_woken_once_for_all_items_of_a_batch() -> None:
    wakes: list[object] = []

    async def anext_batches(handover: Handover[int]) -> list[list[int]]:
        return [batch async for batch in handover.batches()]

    loop = asyncio.get_running_loop()
    call_soon = loop.call_soon
    handover = Handover[int]()
    reading = asyncio.create_task(anext_batches(handover))
    await asyncio.sleep(0)

    def counted(callback: Callable[..., object], *args: Any, **kwargs: Any) -> asyncio.Handle:
        if getattr(callback, "__name__", "") == "_wake":
            wakes.append(callback)
        return call_soon(callback, *args, **kwargs)

    loop.call_soon = counted  # type: ignore[assignment, method-assign]
    for number in range(100):
        handover.put(number)
    handover.close()
    assert (await reading) == [list(range(100))]
    assert len(wakes) == 1


def test_the_error_comes_after_the_last_item() -> None:
    handover = Handover[int]()
    handover.put(1)
    handover.close(LookupError("the producer failed"))
    handover.close()
    assert handover.closed
    taken: list[int] = []

    async def main() -> None:
        async for batch in handover.batches():
            taken.extend(batch)

    with pytest.raises(LookupError):
        asyncio.run(main())
    with closing(handover.batches_blocking()) as batches:
        assert next(batches) == [1]
        with pytest.raises(LookupError):
            next(batches)
    assert taken == [1]


def test_a_reader_whose_loop_is_closed_does_not_affect_others() -> None:
    handover = Handover[int]()

    async def leave() -> None:
        batches = handover.batches()
        handover.put(1)
        assert await anext(batches) == [1]
        waiting.append(batches)

    waiting: list[object] = []
    asyncio.run(leave())
    handover.put(2)
    handover.close()
    assert items_of_blocking(handover) == [1, 2]


@on_a_loop
async def test_a_reader_that_leaves_is_woken_no_more() -> None:
    handover = Handover[int]()
    handover.put(1)
    async with aclosing(handover.batches()) as batches:
        await anext(batches)
    reading = asyncio.create_task(items_of(handover))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert handover._wakers == []


def test_what_is_produced_elsewhere_comes_in_order_and_its_error_last() -> None:
    taken: list[int] = []

    def start(put: Callable[[int], None]) -> Future[None]:
        def produce() -> None:
            for number in range(3):
                put(number)
            raise LookupError("the producer failed")

        return start_in_thread(produce, name="test")

    async def main() -> None:
        async for number in produced_elsewhere(start):
            taken.append(number)

    with pytest.raises(LookupError, match="the producer failed"):
        asyncio.run(main())
    assert taken == [0, 1, 2]


@on_a_loop
async def test_leaving_cancels_the_producer_which_may_go_on_putting() -> None:
    ended: Future[None] = Future()
    puts: list[Callable[[int], None]] = []

    def start(put: Callable[[int], None]) -> Future[None]:
        puts.append(put)
        put(1)
        return ended

    async with aclosing(produced_elsewhere(start)) as numbers:
        async for _ in numbers:
            break
    puts[0](2)
    await asyncio.sleep(0)
    assert ended.cancelled()


@on_a_loop
async def test_a_generator_in_a_thread_is_closed_once_it_is_left() -> None:
    closed = threading.Event()
    go_on = threading.Event()

    def count() -> Generator[int, None, None]:
        try:
            yield 0
            go_on.wait(PATIENCE_S)
            yield 1
        finally:
            closed.set()

    async with aclosing(produced_in_thread(count, name="test")) as numbers:
        assert await anext(numbers) == 0
    assert not closed.is_set()
    go_on.set()
    assert closed.wait(PATIENCE_S)
