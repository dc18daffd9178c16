"""The tool cache bench: tasks run by several sides, against Eqs. 4-6 of SpecTools (Figure 8)."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..common.machine import describe_machine
from ..common.report import BenchReport, Seeds
from . import tools
from .agents import Agent, Clients
from .figures import (
    Case,
    Repetition,
    medians,
    optimizations_table,
    sides_table,
    spread_table,
    task_figures,
    tokens_identical,
)
from .overheads import overhead, round_trip_s
from .server import BenchServer
from .sides import CLIENT_SIDE, ENGINE_SIDE, ENGINE_SIDES, PREFIX_CACHED, SIDES, Side
from .tasks import Task, tasks_of
from .tools import ChancePredictor, TaskTools

REASONING_TOKENS = 800
LATENCIES = {"short": 0.5, "long": 3.0}
"""Most seconds of a tool."""
AGENTS: Final = 8
"""That run at one time where the throughput is measured (SpecTools §5)."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much work a repetition is, and how many there are unless the user says."""

    repetitions: int
    tasks: dict[str, int]
    requests: int
    """Pairs of requests for each overhead."""
    throughput_tasks: int
    alphas: tuple[float, ...]
    """At which O2 and O3 are switched off; at 0, where they have nothing to do, they stay on."""


SIZES = {
    True: Size(3, {"short": 2, "long": 1}, 20, AGENTS, (1.0,)),
    False: Size(5, {"short": 8, "long": 8}, 60, 2 * AGENTS, (1.0, 0.5)),
}
_METHOD = """\
{repetitions} repetitions, with the seeds {seeds}; a figure is the median of the repetitions, and the tables \
have the least and the greatest. In each, agents do {tasks} {source} over HTTP with the official client: a \
request with its tools, a call, the tool, the final answer. Each task is done by all sides before the next \
task, in an order drawn anew. Of BFCL's tasks it is the first request and the first call, and the tool can \
be called in no other way, because a model of this size would not find it. The server is `agentrt serve`'s, \
with the nano model in f32, where equal histories give equal tokens, in a process of its own; as nano does \
not reason, the first {reasoning} tokens of an answer that may call are a fixed text, decoded one by one, \
and the next ones begin a call. Tools wait for a time drawn evenly between 0 and 0.5 s (short) or 3 s (long) \
and are the same on every side. vanilla: each request comes from another app, so that no prefix is reused. \
prefix-cached: the requests of a task come from one app. client-side: besides, `speculate` of \
agentrt.adapters.openai with a predictor whose draft comes after {draft_ms:.0f} ms and is right with \
probability alpha, the same drafts on every side; engine-side: and with `tool_cache=True`. O2 and O3 are \
switched off in the engine; the client submits as ever. Predicted are Eqs. 5 and 6 with K = 1 and what was \
measured: 2o is the time of a request by the official client less that of the same request in the server's \
process, delta the time a token of the same task while reasoning. eq6_attainment is measured over predicted \
savings of engine-side over prefix-cached, eq6_attainment_over_client_side those of O2 and O3 alone, over \
client-side; both from the last word before the call on, at alpha = 1, for every task whose tool is done \
while the model reasons, answered by the engine or not. extra_time_saved_pct_over_client_side and \
engine_alpha0_slowdown_pct (engine-side over prefix-cached) are of whole tasks with short tools, \
reasoning_slowdown_pct is engine-side's time to the call over prefix-cached's. The histories of these agents \
hold the reasoning, so that all sides have the same tokens. throughput_ratio_m8: tokens per second, mean of \
{agents} agents at once, engine-side by prefix-cached, which comes first in every second repetition. \
server_overhead_ms_p50 and stream_ttft_overhead_ms_p50: an answer of 24 tokens over HTTP by httpx, on a \
connection that is kept, less the same inside the server's process on the same engine, alternately; medians \
of {requests} differences."""
_MAX_TOKENS: Final = 1000

Progress = Callable[[str], None]


def run(
    *, quick: bool, workloads: Path | None, progress: Progress, seeds: Seeds | None = None
) -> BenchReport:
    """Run the bench on BFCL's multi-turn tasks in the folder ``workloads``, or on synthetic ones.

    ``seeds`` are those of the repetitions: five, or three if ``quick``, where no count is given.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
    """
    size = SIZES[quick]
    return asyncio.run(_run(size, workloads, progress, (seeds or Seeds()).take(size.repetitions)))


async def _run(size: Size, workloads: Path | None, progress: Progress, seeds: range) -> BenchReport:
    machine, source = describe_machine(), ""
    tasks: dict[int, dict[str, list[Task]]] = {seed: {} for seed in seeds}
    for seed in seeds:  # before the work begins, so that a bad file ends the bench at once
        for name, most_s in LATENCIES.items():
            source, tasks[seed][name] = tasks_of(
                workloads, size.tasks[name], most_s, f"{name} {seed}", REASONING_TOKENS
            )
    measured: list[dict[str, float]] = []
    done: dict[str, list[Repetition]] = {name: [] for name in LATENCIES}
    with BenchServer("nano", REASONING_TOKENS) as server:
        async with AsyncExitStack() as stack:
            clients = Clients(server, stack, _MAX_TOKENS)
            for seed in seeds:
                progress(f"repetition with seed {seed}, of {len(seeds)}")
                measured.append(await _repeat(server, clients, size, tasks[seed], seed, done))
        accepted = server.accepted_per_draft()
    figures = medians(measured)
    figures["tokens_identical"] = float(all(map(tokens_identical, done.values())))
    if accepted is not None:
        figures["o2_tokens_per_forward"] = accepted + 1
    method = _METHOD.format(
        repetitions=len(seeds),
        seeds=f"{seeds[0]} to {seeds[-1]}",
        tasks=" and ".join(f"{count} {name}" for name, count in size.tasks.items()),
        source=source,
        reasoning=REASONING_TOKENS,
        draft_ms=1000 * tools.DRAFT_S,
        agents=AGENTS,
        requests=size.requests,
    )
    return BenchReport(
        bench="toolcache",
        machine=machine,
        figures=figures,
        tables=(
            sides_table(done),
            optimizations_table(done["short"], (*size.alphas, 0.0)),
            spread_table(measured),
        ),
        method=method,
    )


async def _repeat(
    server: BenchServer,
    clients: Clients,
    size: Size,
    tasks: dict[str, list[Task]],
    seed: int,
    done: dict[str, list[Repetition]],
) -> dict[str, float]:
    """Measure everything once more; return the figures, and append the results of the tasks to ``done``."""
    round_trip = await round_trip_s(server, clients, size.requests)
    cases = {"short": _cases(size.alphas), "long": [Case(side) for side in SIDES]}
    for name, of_name in cases.items():
        done[name].append(await _do_tasks(server, clients, tasks[name], of_name, f"{name} {seed}"))
    added = await overhead(server, clients, size.requests)
    return {
        **task_figures(done["short"][-1], round_trip),
        "throughput_ratio_m8": await _throughput_ratio(clients, size, tasks["short"], seed),
        "server_overhead_ms_p50": 1000 * added.whole_s,
        "stream_ttft_overhead_ms_p50": 1000 * added.first_text_s,
    }


def _cases(alphas: tuple[float, ...]) -> list[Case]:
    """Return the cases with short tools."""
    cases = [Case(side) for side in SIDES]
    cases += [Case(side, alpha) for alpha in alphas for side in (CLIENT_SIDE, *ENGINE_SIDES)]
    cases += [Case(side, 0.0) for side in (CLIENT_SIDE, ENGINE_SIDE)]
    return list(dict.fromkeys(cases))


async def _do_tasks(
    server: BenchServer, clients: Clients, tasks: Sequence[Task], cases: Sequence[Case], seed: str
) -> Repetition:
    """Run each task in all ``cases`` before the next task, in an order that ``seed`` draws anew.

    The machine's speed drifts within seconds: cases that are measured one after the other cannot be compared.
    """
    drawn, of_tasks = random.Random(seed), TaskTools(tasks)
    agents = {
        case: Agent(clients, case.side, of_tasks, ChancePredictor(tasks, case.alpha, seed)) for case in cases
    }
    measured = Repetition(tasks, {case: [] for case in cases})
    for task in tasks:
        await clients.warm(task)
        for case in drawn.sample(list(cases), len(cases)):
            server.use(case.side.optimizations)
            measured.done[case].append(await agents[case].do(task))
    return measured


async def _throughput_ratio(clients: Clients, size: Size, tasks: list[Task], seed: int) -> float:
    """Return engine-side's tokens per second by prefix-cached's, which comes first with odd seeds."""
    many = (tasks * size.throughput_tasks)[: size.throughput_tasks]
    sides = (PREFIX_CACHED, ENGINE_SIDE)
    rates = {
        side: await _tokens_per_second(clients, side, many, str(seed))
        for side in (sides if seed % 2 else reversed(sides))
    }
    return rates[ENGINE_SIDE] / rates[PREFIX_CACHED]


async def _tokens_per_second(clients: Clients, side: Side, tasks: Sequence[Task], seed: str) -> float:
    """Return the mean over :data:`AGENTS` agents of the tokens per second of each, with right drafts.

    The agents start at one time, and each runs its share of ``tasks`` one after the other.
    """
    agent = Agent(clients, side, TaskTools(tasks), ChancePredictor(tasks, 1.0, seed))

    async def work(share: Sequence[Task]) -> float:
        began = time.perf_counter()
        written = sum([(await agent.do(task)).written_tokens for task in share])
        return written / (time.perf_counter() - began)

    shares = [tasks[number::AGENTS] for number in range(AGENTS)]
    return statistics.fmean(await asyncio.gather(*(work(share) for share in shares if share)))
