"""What the live page is told, and what not."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from agentrt import Priority
from agentrt.errors import RuntimeClosedError
from agentrt.runtime import LocalRuntime, PooledModel
from agentrt.runtime.engine.trace import TracedKernel, TracedRequest
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.serving.live.expectation import Expectation
from agentrt.runtime.serving.live.frames import Frame, Frames, _request_rows, kernel_rows, newest_of_each_app
from tests.runtime.serving.http.serving import until

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


def test_when_a_request_that_reactive_work_starves_is_served_is_not_known(
    open_runtime: Any, hold: Any
) -> None:
    runtime = open_runtime(max_batch_size=1)
    gate = hold(runtime)
    rows = []
    with ThreadPoolExecutor(2) as threads:
        answer = threads.submit(runtime.generate, PROMPT, max_tokens=60)
        gate.arrived()
        note = threads.submit(runtime.generate, PROMPT, max_tokens=2, priority=Priority.PROACTIVE)
        until(lambda: runtime._engine._commands.qsize() == 1)
        gate.step()
        expectation = Expectation()
        expectation.seconds((), 0.0)
        for second in range(8):
            asked = runtime.engine_status(100)
            gate.step()
            requests = asked.result(30).requests
            now = requests[-1].arrived + second + 0.0001
            (row,) = [
                each
                for each in _request_rows(requests, expectation.seconds(requests, now), now, ())
                if each["class"] == "proactive"
            ]
            rows.append(row)
        gate.open()
        answer.result(60)
        note.result(60)
    assert rows[0]["first_token_s"] > 0
    assert {row["first_token_s"] for row in rows[1:]} == {None}
    assert {row["not_known"] for row in rows[1:]} == {"reactive requests go first"}


def test_why_a_time_is_not_known(open_runtime: Any, hold: Any) -> None:
    runtime = open_runtime()
    gate = hold(runtime)
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(runtime.generate, PROMPT, max_tokens=2)
        gate.arrived()
        asked = runtime.engine_status(100)
        gate.step()
        (request,) = asked.result(30).requests
        gate.open()
        answer.result(60)
    waiting = replace(request, first_token=None)
    expected = {waiting.request_id: None}
    reasons = [_request_rows([waiting], expected, 1.0, early)[0]["not_known"] for early in ((), expected)]
    assert reasons == ["later than expected", "too little seen yet"]


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


def test_an_idle_engine_is_not_woken(runtime: LocalRuntime, monkeypatch: Any) -> None:
    asked: list[int] = []
    monkeypatch.setattr(runtime, "engine_status", asked.append)
    frames_around(runtime, lambda: None)
    assert asked == []


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


@pytest.mark.check
def test_a_page_that_is_open_for_a_day_costs_the_server_no_memory(runtime: LocalRuntime) -> None:
    frames = Frames(lambda: [PooledModel.of(runtime)])
    files = ("live/frames.py", "live/expectation.py", "engine/trace.py")
    sources = [tracemalloc.Filter(True, f"*{file}") for file in files]

    async def watch(rounds: int) -> int:
        """Memory that is kept after so many answers, each with two frames."""
        for number in range(rounds):
            await frames.next()
            await asyncio.to_thread(runtime.generate, PROMPT, app=f"app {number}", max_tokens=3)
            await frames.next()
        gc.collect()
        kept = tracemalloc.take_snapshot().filter_traces(sources)
        return sum(each.size for each in kept.statistics("filename"))

    async def day() -> tuple[int, int]:
        return await watch(50), await watch(400)

    tracemalloc.start()
    try:
        first, last = asyncio.run(day())
    finally:
        tracemalloc.stop()
        frames.stop()
    assert first > 0
    assert last < first + 10_000, "a kernel alone is 300 bytes"
