"""The priority in force follows blocks, functions, coroutines and tasks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator

import pytest

from agentrt import Priority, current_priority, priority
from agentrt.errors import ConfigurationError
from tests.agentrt.loops import on_a_loop

PROACTIVE, REACTIVE = Priority.PROACTIVE, Priority.REACTIVE


def test_requests_are_reactive_by_default() -> None:
    assert current_priority() is REACTIVE


def test_a_block_sets_and_restores_also_when_it_raises() -> None:
    seen = []

    def fail() -> None:
        with priority(PROACTIVE) as value:
            seen.append(value is current_priority() is PROACTIVE)
            with priority(REACTIVE):
                seen.append(current_priority() is REACTIVE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [True, True]
    assert current_priority() is REACTIVE


def test_a_decorated_function_runs_with_it() -> None:
    @priority(PROACTIVE)
    def index(depth: int) -> list[Priority]:
        return [current_priority()] + (index(depth - 1) if depth else [])

    assert index(2) == [PROACTIVE] * 3
    assert current_priority() is REACTIVE


@on_a_loop
async def test_a_decorated_coroutine_runs_with_it_and_others_beside_it_do_not() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    @priority(PROACTIVE)
    async def index() -> Priority:
        entered.set()
        await left.wait()
        return current_priority()

    assert inspect.iscoroutinefunction(index)
    tasks = [asyncio.create_task(index()), asyncio.create_task(index())]
    await entered.wait()
    beside = current_priority()
    left.set()
    assert [beside, *await asyncio.gather(*tasks)] == [REACTIVE, PROACTIVE, PROACTIVE]


@on_a_loop
async def test_a_task_started_inside_a_block_inherits_it() -> None:
    async def current() -> Priority:
        return current_priority()

    with priority(PROACTIVE):
        task = asyncio.create_task(current())
    assert (await task) is PROACTIVE


def test_generators_are_refused() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for generator in (numbers, later):
        with pytest.raises(ConfigurationError, match="with block"):
            priority(PROACTIVE)(generator)


def test_the_service_tier_on_the_wire() -> None:
    assert (REACTIVE.service_tier, PROACTIVE.service_tier) == ("priority", "flex")
