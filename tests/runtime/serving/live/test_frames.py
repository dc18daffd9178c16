"""What the live page is told, and what not."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import Priority
from agentrt.errors import RuntimeClosedError
from agentrt.runtime import (
    BackgroundConditions,
    BackgroundConfig,
    BackgroundService,
    LocalRuntime,
    PooledModel,
)
from agentrt.runtime.engine.engine_status import EngineStatus
from agentrt.runtime.engine.trace import TracedKernel, TracedRequest
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.scheduler.block_manager import AwaitedContext
from agentrt.runtime.serving.live.expectation import Expectation
from agentrt.runtime.serving.live.frames import (
    MAX_ROWS,
    Frame,
    Frames,
    _request_rows,
    held_rows,
    kernel_rows,
    newest_of_each_app,
)
from tests.patience import PATIENCE_S, in_event_loop
from tests.runtime.conftest import Gate
from tests.runtime.serving.http.serving import until
from tests.runtime.serving.live.test_expectation import status
from tests.runtime.serving.server.conftest import WEATHER

SECRET = "the lighthouse keeper"
PROMPT = [{"role": "user", "content": SECRET}]


def frames_around(runtime: LocalRuntime, act: Any, gate: Any = None) -> list[Frame]:
    """A frame before, while and after ``act`` runs on a thread; with a gate, one while a request runs."""
    frames = Frames(lambda: [PooledModel.of(runtime)])

    async def watch() -> list[Frame]:
        found = [await frames.next()]
        with ThreadPoolExecutor(1) as thread:
            acting = asyncio.get_running_loop().run_in_executor(thread, act)
            if gate is not None:
                gate.arrived()
                found.append(await frames.next())  # asks the engine, which answers behind its kernel
                gate.step()
                found.append(await frames.next())
                gate.open()
            while not acting.done():
                found.append(await frames.next())
            await acting
        found.append(await frames.next())
        return found

    try:
        return asyncio.run(watch())
    finally:
        frames.stop()


def test_a_request_from_its_arrival_to_its_end(runtime: LocalRuntime) -> None:
    def ask() -> str:
        options: Any = {"app": "notes", "priority": Priority.PROACTIVE, "max_tokens": 60}
        return runtime.generate(PROMPT, **options).id

    frames = frames_around(runtime, ask)
    models = [frame["models"][0] for frame in frames]
    (ended,) = [each for model in models for each in model["ended"]]
    assert (ended["app"], ended["class"], ended["outcome"]) == ("notes", "proactive", "length")
    assert 0 <= ended["queued_s"] <= ended["first_token_s"] <= ended["total_s"]
    rows = [row for model in models for row in model["requests"]]
    assert {row["id"] for row in rows} <= {ended["id"]}
    assert sum(row[5] for model in models for row in model["kernels"]) >= 60, "each kernel is in one frame"
    counts = [model["counts"]["sampled_tokens"] for model in models]
    assert counts == sorted(counts)
    assert counts[-1] - counts[0] == 60


def test_no_text_and_no_whole_id_is_told(runtime: LocalRuntime, gate: Any) -> None:
    def ask() -> None:
        for _ in range(3):
            runtime.generate(PROMPT, app="notes", session="diary", max_tokens=20)

    frames = frames_around(runtime, ask, gate)
    told = json.dumps(frames)
    assert SECRET not in told
    rows = [row for frame in frames for row in frame["models"][0]["requests"]]
    assert {row["context"][:4] for row in rows} == {"ctx_"}
    assert {len(row["context"]) for row in rows} == {12}
    assert not re.search(r"(gen|ctx)_\w{9}", told)


def test_waiting_requests_have_a_position_and_a_time(open_runtime: Any, hold: Any) -> None:
    runtime = open_runtime(max_batch_size=1)
    gate = hold(runtime)
    options: Any = {"max_tokens": 2, "priority": Priority.PROACTIVE}
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(runtime.generate, PROMPT, **options)
        gate.arrived()
        others = [threads.submit(runtime.generate, PROMPT, app=app, **options) for app in ("a", "b", "b")]
        until(lambda: runtime._engine._commands.qsize() == 3)
        asked = runtime.engine_status(100)
        gate.step()
        states = asked.result(30).requests
        gate.open()
        for each in (first, *others):
            each.result(60)
    assert [each.app for each in states].count("b") == 2
    assert len(states) == 4
    now = states[0].arrived
    (_, *rows) = _request_rows(states, Expectation().seconds(states, now), now, ())
    waiting = [row for row in rows if row["state"] == "waiting"]
    assert [row["position"] for row in waiting] == list(range(1, len(waiting) + 1))
    expected = [row["first_token_s"] for row in rows]
    assert expected == sorted(expected)
    assert states[-1].prefill_left_s > 0


@pytest.mark.parametrize(
    ("others", "uncompared", "reason"),
    [
        ((), (), "later than expected"),
        ((), ("note",), "too little seen yet"),
        ((status("user", 0.0, first_token=0.0, reactive=True),), (), "reactive requests go first"),
    ],
)
def test_why_a_time_is_not_known(others: Any, uncompared: Any, reason: str) -> None:
    *_, row = _request_rows([*others, status("note", 0.1)], {"note": None}, 1.0, uncompared)
    assert (row["first_token_s"], row["not_known"]) == (None, reason)


def test_an_app_that_ends_many_leaves_room_for_the_others() -> None:
    ended = [
        TracedRequest(str(number), "busy" if number % 50 else f"app {number}", False, 0, 0, 0, number, "stop")
        for number in range(500)
    ]
    kept = newest_of_each_app(ended, 30)
    assert [each.ended for each in kept] == sorted(each.ended for each in kept)
    assert {each.app for each in kept} == {"busy", *(f"app {number}" for number in range(0, 500, 50))}
    assert [each.ended for each in kept if each.app == "busy"] == list(range(480, 500))
    assert newest_of_each_app(ended[:3], 30) == ended[:3]


def test_an_engine_that_stops_has_no_requests(open_runtime: Any, hold: Any) -> None:
    runtime = open_runtime()
    gate = hold(runtime)
    frames = Frames(lambda: [PooledModel.of(runtime)])

    async def watch() -> list[Frame]:
        first = await frames.next()
        gate.arrived()
        asked = await frames.next()  # in vain: the engine is in a kernel
        with ThreadPoolExecutor(1) as closing:
            closed = closing.submit(runtime.close)
            until(lambda: runtime.closed)
            gate.open()
            closed.result(30)
        last = await frames.next()
        return [frame["models"][0] for frame in (first, asked, last)]

    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(runtime.generate, PROMPT, max_tokens=50)
        shown = asyncio.run(watch())
        with pytest.raises(RuntimeClosedError):
            answer.result(30)
    frames.stop()
    assert shown[-1]["requests"] == []
    parts = [model["kv"] for model in shown]
    assert min(kv["free_bytes"] / kv["bytes"] for kv in parts) > 0.9, "blocks are counted without the engine"


def kernel(number: int, role: Role = Role.DECODE, *, reactive: bool = True) -> TracedKernel:
    return TracedKernel(
        role, number, number + 0.5, number, 0, 1, "layers", "decode", reactive, ("gen_0123456789",), 1
    )


def test_many_kernels_become_few_bars_and_none_is_lost() -> None:
    kernels = [kernel(number, role) for number in range(5000) for role in Role]
    rows = kernel_rows(kernels, 100)
    assert len(rows) <= 200
    assert sum(row[5] for row in rows) == 10_000
    assert rows[0][1] == 0
    assert max(row[1] + row[2] for row in rows) == 4999.5
    assert kernel_rows([], 100) == []
    few = kernel_rows([kernel(1), kernel(2, reactive=False)], 100)
    assert [(row[3], row[4], row[6], row[7]) for row in few] == [
        (1, 1, "gen_01234567", 0),
        (1, 0, "gen_01234567", 0),
    ]
    alternating = [kernel(number, reactive=number % 2 == 0) for number in range(5000)]
    assert len(kernel_rows(alternating, 100)) == 100


def test_several_traces_are_recorded_at_once(runtime: LocalRuntime) -> None:
    with runtime.record_trace() as long:
        runtime.generate(PROMPT, max_tokens=2)
        with runtime.record_trace(limit=1) as short:
            runtime.generate(PROMPT, max_tokens=2)
        runtime.generate(PROMPT, max_tokens=2)
    runtime.generate(PROMPT, max_tokens=2)
    assert len(long.requests) == 3
    assert (len(short.requests), len(short.kernels)) == (1, 1)
    assert runtime._engine._outputs.traces == ()
    assert [each.outcome for each in long.requests] == ["length"] * 3


def rows_of(*frames: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of frames, each of which adds up."""
    for frame in frames:
        kv = frame["models"][0]["kv"]
        assert sum(row["bytes"] for row in kv["held"]) == kv["bytes"] - kv["free_bytes"] - kv["cached_bytes"]
    return [row for frame in frames for row in frame["models"][0]["kv"]["held"]]


def test_an_answer_whose_tools_run_is_held_for_the_next_turn(
    runtime: LocalRuntime, weather_tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    ask = runtime.engine_status

    def count_and_ask(most: int) -> Any:
        asked.append(most)
        return ask(most)

    monkeypatch.setattr(runtime, "engine_status", count_and_ask)
    monkeypatch.setattr("agentrt.runtime.serving.live.frames._ANSWER_S", PATIENCE_S)
    since_before, opened_later = (Frames(lambda: [PooledModel.of(runtime)]) for _ in range(2))

    async def watch() -> list[list[dict[str, Any]]]:
        before = await since_before.next()
        options: Any = {"app": "agent", "tools": [weather_tool], "tool_choice": "required"}
        await asyncio.to_thread(runtime.generate, WEATHER, **options, max_tokens=200)
        await asyncio.to_thread(until, lambda: runtime._engine._scheduler.block_manager.awaited_contexts)
        after = [[await frames.next() for _ in range(3)] for frames in (since_before, opened_later)]
        return [[before], *after]

    try:
        before, *after = asyncio.run(watch())
    finally:
        since_before.stop()
        opened_later.stop()
    assert rows_of(*before) == []
    for frames in after:
        assert [(row["held_for"], row["app"]) for row in rows_of(*frames)] == [("next turn", "agent")] * 3
    assert len(asked) == 2, "an idle engine is asked once for what it holds, by a page that comes later too"


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
        awaited_contexts=tuple(
            AwaitedContext(app, context, list(blocks)) for (app, context), blocks in turns
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
    turns = tuple(AwaitedContext("app", f"ctx {place}", [place]) for place in range(500))
    rows = held_rows(EngineStatus(awaited_contexts=turns, free_blocks=500), 1000, 1)
    assert len(rows) == MAX_ROWS + 1
    assert rows[-1] == {"held_for": "other", "app": None, "context": None, "bytes": 500 - MAX_ROWS}


@in_event_loop
async def test_the_background_queue_is_told_without_its_texts(runtime: LocalRuntime, gate: Gate) -> None:
    config = BackgroundConfig(concurrent=1, conditions=BackgroundConditions(max_other_load=None))
    async with BackgroundService(runtime, config, apps=("mail", "notes")) as background:
        frames = Frames(list, queue=background.queue)
        assert (await frames.next())["background"] == {"waits_for": None, "unended": 0, "jobs": []}
        jobs = [
            await background.submit(PROMPT, app=app, metadata={"about": SECRET}, max_tokens=2)
            for app in ("mail", "mail", *["mail"] * MAX_ROWS, "notes")
        ]
        told = (await frames.next())["background"]
        rows = told["jobs"]
        assert (told["unended"], len(rows)) == (MAX_ROWS + 3, MAX_ROWS)
        assert [each["app"] for each in rows[:4]] == ["mail", "mail", "notes", "mail"], "apps take turns"
        assert [each["position"] for each in rows[:4]] == [0, 0, 1, 2]
        assert rows[2]["id"] == jobs[-1].id[:12]
        assert SECRET not in json.dumps(told)
        for job in jobs:
            await job.cancel()
        assert (await frames.next())["background"]["unended"] == 0


@in_event_loop
async def test_a_queue_that_waits_sends_the_same_frame(runtime: LocalRuntime) -> None:
    never = BackgroundConfig(conditions=BackgroundConditions(max_other_load=1e-9))
    async with BackgroundService(runtime, never) as background:
        frames = Frames(list, queue=background.queue)
        job = await background.submit(PROMPT)
        told = (await frames.next())["background"]
        assert told["waits_for"] in ("measuring", "other_load")
        assert told["jobs"][0]["done_s"] is None
        await asyncio.sleep(0.01)
        assert (await frames.next())["background"]["jobs"] == told["jobs"]
        await job.cancel()
        assert (await frames.next())["background"]["waits_for"] is None
