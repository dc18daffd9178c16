"""The rows of KV memory add up to all that a model holds, whatever it is held for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import Priority
from agentrt.runtime import LocalRuntime, PooledModel
from agentrt.runtime.engine.engine_status import EngineStatus
from agentrt.runtime.scheduler.block_manager import HeldContext
from agentrt.runtime.serving.live.frames import Frames
from agentrt.runtime.serving.live.kv_memory import MAX_ROWS, held_rows
from tests.runtime.serving.http.serving import until
from tests.runtime.serving.live.test_expectation import status

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PROMPT = [{"role": "user", "content": "What is the weather in Ljubljana?"}]
LONG = [{"role": "system", "content": "Be brief and kind. " * 40}, *PROMPT]


def rows_of(*frames: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of frames, each of which adds up."""
    for frame in frames:
        kv = frame["models"][0]["kv"]
        assert sum(row["bytes"] for row in kv["held"]) == kv["bytes"] - kv["free_bytes"] - kv["cached_bytes"]
    return [row for frame in frames for row in frame["models"][0]["kv"]["held"]]


def test_an_answer_whose_tools_run_is_held_for_the_next_turn(
    runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = Frames(lambda: [PooledModel.of(runtime)])

    async def watch() -> list[dict[str, Any]]:
        before = await frames.next()
        await asyncio.to_thread(
            runtime.generate, LONG, app="agent", tools=[WEATHER], tool_choice="required", max_tokens=200
        )
        await asyncio.to_thread(until, lambda: runtime._engine._scheduler.block_manager.held_contexts)
        return [before, *[await frames.next() for _ in range(3)]]

    asked: list[int] = []
    ask = runtime.engine_status

    def count_and_ask(most: int) -> Any:
        asked.append(most)
        return ask(most)

    monkeypatch.setattr(runtime, "engine_status", count_and_ask)
    try:
        before, *after = asyncio.run(watch())
    finally:
        frames.stop()
    assert rows_of(before) == []
    assert {(row["held_for"], row["app"]) for row in rows_of(*after)} == {("next turn", "agent")}
    assert len(rows_of(*after)) == 3
    assert len(asked) == 1, "an idle engine is asked once for what it holds"


def test_a_page_that_is_opened_afterwards_tells_the_same(runtime: LocalRuntime) -> None:
    """The engine is idle when the page comes, and holds memory since before."""
    runtime.generate(LONG, app="agent", tools=[WEATHER], tool_choice="required", max_tokens=200)
    until(lambda: runtime._engine._scheduler.block_manager.held_contexts)
    frames = Frames(lambda: [PooledModel.of(runtime)])

    async def watch() -> list[dict[str, Any]]:
        return [await frames.next() for _ in range(3)]

    try:
        found = asyncio.run(watch())
    finally:
        frames.stop()
    assert {(row["held_for"], row["app"]) for row in rows_of(found[-1])} == {("next turn", "agent")}


def test_what_several_contexts_share_is_counted_once(open_runtime: Any, hold: Any) -> None:
    runtime = open_runtime()
    for session in "abc":  # the prefix is cached
        runtime.generate(LONG, app="notes", session=session, max_tokens=2)
    gate = hold(runtime)
    frames = Frames(lambda: [PooledModel.of(runtime)])

    async def watch() -> dict[str, Any]:
        frame = await frames.next()
        with ThreadPoolExecutor(3) as threads:
            options: Any = {"app": "notes", "max_tokens": 200, "priority": Priority.PROACTIVE}
            answers = [threads.submit(runtime.generate, LONG, session="a", **options)]
            gate.arrived()
            answers += [threads.submit(runtime.generate, LONG, session=each, **options) for each in "bc"]
            until(lambda: runtime._engine._commands.qsize() >= 2)
            while [row["state"] for row in frame["models"][0]["requests"]] != ["decode"] * 3:
                gate.step()  # the engine answers between two kernels
                frame = await frames.next()
            gate.open()
            for each in answers:
                await asyncio.wrap_future(each)
        return frame

    rows = rows_of(asyncio.run(watch()))
    frames.stop()
    assert {row["held_for"] for row in rows} == {"requests"}
    assert {row["app"] for row in rows} == {"notes"}
    shared = [row for row in rows if row["context"] is None]
    assert len(shared) == 1
    assert rows[0] == shared[0], "the long prefix is the largest"


BLOCKS = st.lists(st.integers(0, 99), max_size=20).map(tuple)
NAMES = st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"]))


@given(
    requests=st.lists(st.tuples(NAMES, BLOCKS), max_size=6),
    turns=st.lists(st.tuples(NAMES, BLOCKS), max_size=6),
    swapped=BLOCKS,
    lost=st.integers(0, 10),
)
def test_rows_add_up_whatever_is_held(requests: Any, turns: Any, swapped: Any, lost: int) -> None:
    used = {block for _, blocks in (*requests, *turns) for block in blocks} | set(swapped)
    snapshot = EngineStatus(
        requests=tuple(
            status(str(place), 0.0, app=app, context_id=context, blocks=blocks)
            for place, ((app, context), blocks) in enumerate(requests)
        ),
        held_contexts=tuple(
            HeldContext(app, context, list(blocks), None, 0, 0.0) for (app, context), blocks in turns
        ),
        swapped_blocks=frozenset(swapped),
        free_blocks=110 - len(used) - lost,
    )
    rows = held_rows(snapshot, 110, 8)
    assert sum(row["bytes"] for row in rows) == 8 * (len(used) + lost)
    assert all(row["bytes"] > 0 for row in rows)
    assert len({(row["held_for"], row["app"], row["context"]) for row in rows}) == len(rows)
    of_requests = {block for _, blocks in requests for block in blocks}
    assert sum(row["bytes"] for row in rows if row["held_for"] == "requests") == 8 * len(of_requests)


def test_many_contexts_are_few_rows() -> None:
    turns = tuple(HeldContext("app", f"ctx {place}", [place], None, 0, 0.0) for place in range(500))
    rows = held_rows(EngineStatus(held_contexts=turns, free_blocks=500), 1000, 1)
    assert len(rows) == MAX_ROWS + 1
    assert rows[-1] == {"held_for": "other", "app": None, "context": None, "bytes": 500 - MAX_ROWS}
