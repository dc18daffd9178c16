"""The tool cache bench: tasks run in four ways, against Eqs. 4-6 of SpecTools (Figure 8)."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.perfmodel import EngineTimes, EngineTurn

from ..common.machine import describe_machine
from ..common.report import BenchReport, Table
from .agents import SIDES, Agent, Done, Side
from .server import APPS, BenchServer, exact, token_of
from .tasks import Task, tasks_of

REASONING_TOKENS = 800
_SIZES = {True: (5, 30), False: (16, 100)}
"""Tasks a latency, and requests for the overheads."""
LATENCIES = {"short": 0.5, "long": 3.0}
_METHOD = """\
Agents do {tasks} {source} a latency over HTTP with the official client, one after the other: a request \
with its tools, a call, the tool, the final answer. Of BFCL's tasks it is the first request and the first \
call, and the tool can be called in no other way, because a model of this size would not find it. The \
server is `agentrt serve`'s, with the nano model in f32, where equal histories give equal tokens, in a \
process of its own; as nano does not reason, the first \
{reasoning} tokens of an answer that may call are a fixed text, decoded one by one, and the next ones begin \
a call. Tools wait for a time drawn evenly between 0 and 0.5 s (short) or 3 s (long) and are the same on \
every side. vanilla: each request comes from another app, so that no prefix is reused. prefix-cached: from \
the same one. client-side: besides, the tool starts with the request. engine-side: and its output is \
submitted when it is there. The draft is always right (alpha = 1); it was recorded in a run of its own. \
Predicted are Eqs. 5 and 6 with K = 1 and what was measured in this run: o is half of the time of a \
request that has nothing to compute but one token, delta the time a token while reasoning in the \
prefix-cached runs. eq6_attainment is the sum of measured over that of predicted savings of engine-side \
over prefix-cached, of the tasks whose tool was done while the model was reasoning, as Eq. 6 assumes. The \
histories of these agents hold the reasoning, so that all sides have the same tokens. \
server_overhead_ms_p50 and stream_ttft_overhead_ms_p50 are medians over {overhead} requests of 24 tokens, \
HTTP by httpx, on a connection that is kept, minus the same in the process."""

Progress = Callable[[str], None]


def run(*, quick: bool, workloads: Path | None, progress: Progress) -> BenchReport:
    """Run the bench on BFCL's multi-turn tasks in the folder ``workloads``, or on synthetic ones."""
    return asyncio.run(_run(quick, workloads, progress))


async def _run(quick: bool, workloads: Path | None, progress: Progress) -> BenchReport:
    count, overhead = _SIZES[quick]
    drawn = {
        name: tasks_of(workloads, count, most, seed) for seed, (name, most) in enumerate(LATENCIES.items())
    }
    source = drawn["short"][0]
    sets = {name: tasks for name, (_, tasks) in drawn.items()}
    with BenchServer(REASONING_TOKENS) as server:
        async with AsyncExitStack() as stack:
            clients = _Clients(server.port, stack)
            progress("warming up, and recording which calls are made")
            recorded = await _record(clients, [task for tasks in sets.values() for task in tasks])
            before = await clients.counters()
            runs: dict[str, dict[Side, list[Done]]] = {}
            for name, chosen in sets.items():
                runs[name] = {}
                for side in SIDES:
                    progress(f"{side}, {name} tools")
                    agent = Agent(clients.shared, side, clients.fresh)
                    runs[name][side] = [await agent.do(task, recorded[task.prompt]) for task in chosen]
            after = await clients.counters()
            progress("8 agents at once")
            throughput = {
                side: await _throughput(clients, side, sets["short"], recorded)
                for side in ("prefix-cached", "engine-side")
            }
            progress("requests with next to nothing to do")
            round_trip = await _round_trip(clients)
            http = await _through_http(clients, overhead)
    within = await _in_process(overhead)
    times = _Times(round_trip, _decode_seconds(runs))
    figures = _figures(sets, runs, times)
    drafts = sum(done.in_engine for side in runs.values() for done in side["engine-side"])
    if drafts:
        accepted = (
            after["agentrt_engine_accepted_tokens_total"] - before["agentrt_engine_accepted_tokens_total"]
        )
        figures["o2_tokens_per_forward"] = accepted / drafts + 1
    figures["throughput_ratio_m8"] = throughput["engine-side"] / throughput["prefix-cached"]
    figures["server_overhead_ms_p50"] = 1000 * (http[0] - within[0])
    figures["stream_ttft_overhead_ms_p50"] = 1000 * (http[1] - within[1])
    return BenchReport(
        bench="toolcache",
        machine=describe_machine(),
        figures=figures,
        tables=(_sides(runs), _parameters(times)),
        method=_METHOD.format(tasks=count, source=source, reasoning=REASONING_TOKENS, overhead=overhead),
    )


class _Clients:
    """OpenAI clients of one server, one app each."""

    def __init__(self, port: int, stack: AsyncExitStack) -> None:
        import httpx
        import openai

        self._apps = itertools.cycle(range(1, APPS))
        base_url = f"http://127.0.0.1:{port}/v1"
        self.shared: Any = openai.AsyncOpenAI(
            base_url=base_url, api_key=token_of(0), max_retries=0, timeout=120
        )
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"authorization": f"Bearer {token_of(0)}"},
            timeout=120,
        )
        stack.push_async_callback(self.shared.close)
        stack.push_async_callback(self.http.aclose)

    def fresh(self) -> Any:
        """Return a client on the same connections, with a new app."""
        return self.shared.copy(api_key=token_of(next(self._apps)))

    async def counters(self) -> dict[str, float]:
        """Return the server's counters."""
        lines = (await self.http.get("/metrics")).text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}


@dataclass(frozen=True, slots=True)
class _Times:
    """Parameters of Eqs. 4-6, measured on this machine, in seconds."""

    round_trip: float
    decode: float

    def saving(self, task: Task, done: Done) -> float:
        """Seconds by which Eq. 6 is below Eq. 5 for one task with a right draft."""
        turn = EngineTurn(
            reasoning_tokens=REASONING_TOKENS,
            call_tokens=max(1, done.first_tokens - REASONING_TOKENS),
            result_tokens=max(0, done.output_tokens),
            tool_s=task.latency_s,
        )
        # What is read is the same in both equations.
        times = EngineTimes(self.round_trip / 2, 0.0, self.decode, max(1, done.prompt_tokens), [turn])
        return times.cached() - times.speculative(1.0)


async def _record(clients: _Clients, tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    agent = Agent(clients.shared, "prefix-cached", clients.fresh)
    recorded = {}
    for task in tasks:
        done = await agent.do(dataclasses.replace(task, latency_s=0.0), None)
        recorded[task.prompt] = {"name": done.name, "arguments": done.arguments}
    return recorded


async def _throughput(
    clients: _Clients, side: Side, tasks: Sequence[Task], recorded: dict[str, dict[str, str]]
) -> float:
    """Return the tasks per second of eight agents."""
    left = iter([*tasks, *tasks])

    async def work() -> None:
        agent = Agent(clients.shared, side, clients.fresh)
        for task in left:
            await agent.do(task, recorded[task.prompt])

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(8)))
    return 2 * len(tasks) / (time.perf_counter() - began)


_LITTLE: Any = {"messages": [{"role": "user", "content": "Hello!"}], "temperature": 0}


async def _round_trip(clients: _Clients) -> float:
    """Return the median seconds of a request for one token with a cached prompt."""

    async def one() -> float:
        began = time.perf_counter()
        await clients.shared.chat.completions.create(model="nano", max_tokens=1, **_LITTLE)
        return time.perf_counter() - began

    return await _median(one, 30)


async def _through_http(clients: _Clients, count: int) -> tuple[float, float]:
    """Return the median seconds of an answer of 24 tokens, and to the first word of a streamed one.

    Measured with httpx: OpenAI's client adds milliseconds of its own.
    """
    path, asked = "/v1/chat/completions", {**_LITTLE, "ignore_eos": True, "max_tokens": 24, "model": "nano"}

    async def whole() -> float:
        began = time.perf_counter()
        (await clients.http.post(path, json=asked)).json()
        return time.perf_counter() - began

    async def first() -> float:
        began = time.perf_counter()
        seconds = 0.0
        async with clients.http.stream("POST", path, json={**asked, "stream": True}) as response:
            async for line in response.aiter_lines():
                if not seconds and line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    if choices and choices[0]["delta"].get("content"):
                        seconds = time.perf_counter() - began
        return seconds

    return await _median(whole, count), await _median(first, count)


async def _in_process(count: int) -> tuple[float, float]:
    from agentrt.calls import TextDelta
    from agentrt.runtime import LocalRuntime

    more: Any = {"max_tokens": 24, "ignore_eos": True}
    with LocalRuntime.open("nano", exact()) as runtime:

        async def whole() -> float:
            began = time.perf_counter()
            await runtime.agenerate(_LITTLE["messages"], **more)
            return time.perf_counter() - began

        async def first() -> float:
            began = time.perf_counter()
            seconds = 0.0
            async for event in runtime.stream(_LITTLE["messages"], **more):
                if not seconds and isinstance(event, TextDelta):
                    seconds = time.perf_counter() - began
            return seconds

        return await _median(whole, count), await _median(first, count)


async def _median(measure: Callable[[], Awaitable[float]], count: int) -> float:
    for _ in range(3):
        await measure()
    return statistics.median([await measure() for _ in range(count)])


def _decode_seconds(runs: dict[str, dict[Side, list[Done]]]) -> float:
    """Return the seconds per token between the first word and the end of the call."""
    return statistics.median(
        (done.called_s - done.first_s) / (done.first_tokens - 2)
        for sides in runs.values()
        for done in sides["prefix-cached"]
    )


def _figures(
    sets: dict[str, list[Task]], runs: dict[str, dict[Side, list[Done]]], times: _Times
) -> dict[str, float]:
    figures: dict[str, float] = {}
    measured = predicted = 0.0
    for name, tasks in sets.items():
        sides = runs[name]
        for task, cached, engine in zip(tasks, sides["prefix-cached"], sides["engine-side"], strict=True):
            if engine.in_engine and task.latency_s < REASONING_TOKENS * times.decode:
                measured += cached.elapsed_s - engine.elapsed_s
                predicted += times.saving(task, cached)
    if predicted:
        figures["eq6_attainment"] = measured / predicted
    short = runs["short"]
    total = {side: sum(done.elapsed_s for done in short[side]) for side in SIDES}
    figures["extra_time_saved_pct_over_client_side"] = (
        100 * (total["client-side"] - total["engine-side"]) / total["vanilla"]
    )
    waits = [done.resumed_s - max(done.called_s, done.ready_s) for done in short["prefix-cached"]]
    within = [done.resumed_s - done.called_s for done in short["engine-side"] if done.in_engine]
    if within:
        figures["o3_reentry_ms_saved"] = 1000 * (statistics.median(waits) - statistics.median(within))
    figures["tokens_identical"] = float(
        all(
            (one.name, one.arguments, one.text) == (other.name, other.arguments, other.text)
            for sides in runs.values()
            for one, other in zip(sides["prefix-cached"], sides["engine-side"], strict=True)
        )
    )
    return figures


def _sides(runs: dict[str, dict[Side, list[Done]]]) -> Table:
    rows = []
    for name, sides in runs.items():
        slowest = sum(done.elapsed_s for done in sides["vanilla"])
        for side, done in sides.items():
            seconds = sum(one.elapsed_s for one in done)
            rows.append(
                (
                    name,
                    side,
                    seconds / len(done),
                    100 * (1 - seconds / slowest),
                    sum(one.in_engine for one in done) / len(done),
                )
            )
    return Table(
        title="time a task (Figure 8)",
        columns=("tools", "side", "seconds a task", "time saved, % of vanilla", "answered in the engine"),
        rows=tuple(rows),
    )


def _parameters(times: _Times) -> Table:
    return Table(
        title="Parameters of Eqs. 4-6",
        columns=("parameter", "milliseconds"),
        rows=(("2o, a request", 1000 * times.round_trip), ("delta, a token", 1000 * times.decode)),
    )
