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

from ..common.bench_model import open_given_models, title_of
from ..common.estimates import Estimate, median
from ..common.machine import describe_machine
from ..common.report import BenchReport, Seeds
from .agents import Agent, Clients, Done
from .figures import (
    Case,
    Compared,
    model_figures,
    phases_table,
    reasoning_table,
    sides_table,
    task_figures,
    tokens_identical,
    verdicts_table,
)
from .overheads import overhead_figures, round_trip_s
from .server import NANO, BenchServer
from .sides import ENGINE_SIDE, ENGINE_SIDES, PREFIX_CACHED, SIDES, Side
from .tasks import ChancePredictor, Task, TaskTools, tasks_of

LATENCIES = {"short": 0.2, "long": 1.5}
"""Most seconds of a tool."""
AGENTS: Final = 8
"""That run at one time where the throughput is measured (SpecTools §5)."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much work a seed is, and how many there are unless the user says."""

    seeds: int
    tasks: dict[str, int]
    """By the latency of their tools."""
    requests: int
    """Pairs of requests for each overhead."""
    reasoning_tokens: int = 400
    max_tokens: int = 1000
    throughput_tasks: int = 0
    """With none, neither the throughput nor what HTTP adds is measured."""


SIZES = {
    True: Size(3, {"short": 2, "long": 1}, 20, throughput_tasks=AGENTS),
    False: Size(5, {"short": 6, "long": 1}, 40, throughput_tasks=2 * AGENTS),
}
MODEL_SIZES = {
    True: Size(1, {"short": 3}, 4, reasoning_tokens=40, max_tokens=160),
    False: Size(5, {"short": 4}, 10, reasoning_tokens=40, max_tokens=160),
}
"""With a given model, whose tokens take as long as many of nano's."""
_METHOD: Final = """\
Agents do tasks over HTTP with the official client: a request with its tools, a call, the tool, the final \
answer. Each task is done by all sides before the next task, in an order drawn anew, and sides are \
compared within a task: a figure is the median over the tasks of all seeds, its 90 % interval over the \
tasks (throughput_ratio_m8: over the seeds). The server is `agentrt serve`'s, with {served}, in a \
process of its own; the first {reasoning} tokens of an answer that may call are a fixed text, decoded one by \
one. Tools wait for a time drawn evenly between 0 and 0.2 s (short) or 1.5 s (long). vanilla: no prefix is \
reused; prefix-cached: that of a task's earlier request is; client-side: `speculate` besides, with a \
predictor whose draft comes after 50 ms; client-side, calls drafted: the engine drafts predicted calls, as \
agentrt's does and the paper's does not; engine-side: `tool_cache=True`, and no such drafts. Predicted are \
Eqs. 5 and 6 with K = 1 and what was measured of the same task. eq6_attainment is measured over predicted \
savings of engine-side over prefix-cached, eq6_attainment_over_client_side those of O2 and O3 alone, both \
from the last word before the call on, for every task whose tool is done while the model reasons, as sums \
over the tasks. extra_time_saved_pct_over_client_side is of whole tasks with short tools, in percent of \
vanilla's time (Figure 8); extra_ms_saved_over_client_side is of tasks whose tool is done while the model \
reasons, from the last word before the call on. o2_call_ms_saved is of the call, o3_reentry_ms_saved from \
its end to the next word. A saving is 'not shown' where its interval spans 0."""
_NANO_METHOD: Final = """ \
throughput_ratio_m8: tokens per second, mean of eight agents at once, engine-side by prefix-cached. \
*_overhead_ms_p50: an answer of 24 tokens over HTTP less the same inside the server's process."""
_MODEL_METHOD: Final = """ \
An answer ends with {most} tokens. decode_ms is the paper's delta, round_trip_ms its 2o: what HTTP and \
client add to a request. reread_tokens: tokens of the prompt that the client side's second request computes, \
apart from the tool's output and what the chat template adds to it. What a longer reasoning saves is \
computed from delta alone, and so is the least: the client side's second request reads it again. Final \
answers may differ: the engine goes on behind the call as the model wrote it, the next request has it as the \
template does."""
SHORT_CASES: Final = [
    *map(Case, dict.fromkeys((*SIDES, *ENGINE_SIDES))),
    Case(ENGINE_SIDE, 0.0),
]
"""What is compared with short tools on nano; with given models all but the last."""

Progress = Callable[[str], None]


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    seeds: Seeds | None = None,
    model: str = NANO,
) -> BenchReport:
    """Run the bench on BFCL's multi-turn tasks in the folder ``workloads``, or on synthetic ones.

    ``seeds`` draw tasks and latencies: five, or fewer if ``quick``, where no count is given. ``model`` is a
    GGUF file, a directory or an embedded name.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
        ModelNotFoundError, ModelFormatError: the model cannot be opened.
    """
    size = (SIZES if model == NANO else MODEL_SIZES)[quick]
    taken = (seeds or Seeds()).take(size.seeds)
    if model != NANO:
        open_given_models([model], progress)
    return asyncio.run(_run(model, size, workloads, progress, taken))


async def _run(
    model: str, size: Size, workloads: Path | None, progress: Progress, seeds: range
) -> BenchReport:
    machine = describe_machine()
    tasks: dict[int, dict[str, list[Task]]] = {seed: {} for seed in seeds}
    for seed in seeds:  # before the work begins, so that a bad file ends the bench at once
        for name, count in size.tasks.items():
            tasks[seed][name] = tasks_of(
                workloads, count, LATENCIES[name], f"{name} {seed}", size.reasoning_tokens
            )
    compared: dict[str, list[Compared]] = {name: [] for name in size.tasks}
    throughput, overheads = list[float](), dict[str, Estimate]()
    cases = {"short": SHORT_CASES if model == NANO else SHORT_CASES[:-1], "long": [*map(Case, SIDES)]}
    with BenchServer(model, size.reasoning_tokens) as server:
        async with AsyncExitStack() as stack:
            clients = Clients(server, stack, size.max_tokens)
            for seed in seeds:
                progress(f"tasks of seed {seed}, of {len(seeds)}")
                round_trip = await round_trip_s(server, clients, size.requests)
                for name, of_seed in tasks[seed].items():
                    compared[name] += await _do_tasks(
                        server, clients, of_seed, cases[name], f"{name} {seed}", round_trip
                    )
                if size.throughput_tasks:
                    throughput.append(await _throughput_ratio(clients, size, tasks[seed]["short"], seed))
            if size.throughput_tasks:
                progress("what HTTP adds")
                overheads = await overhead_figures(server, clients, size.requests)
    figures = task_figures(compared["short"])
    verdicts = verdicts_table(figures)
    tables = [sides_table(compared), verdicts]
    served, method = "nano in f32", _METHOD + _NANO_METHOD
    if model == NANO:
        figures["throughput_ratio_m8"] = median(throughput)
    else:
        figures |= model_figures(compared["short"])
        tables += [phases_table(compared["short"]), reasoning_table(compared["short"])]
        served, method = title_of(model), _METHOD + _MODEL_METHOD
    figures["tokens_identical"] = tokens_identical([one for each in compared.values() for one in each])
    return BenchReport(
        bench="toolcache" if model == NANO else "toolcache_models",
        machine=machine,
        figures=figures | overheads,
        tables=tuple(tables),
        method=method.format(served=served, reasoning=size.reasoning_tokens, most=size.max_tokens),
    )


async def _do_tasks(
    server: BenchServer,
    clients: Clients,
    tasks: Sequence[Task],
    cases: Sequence[Case],
    seed: str,
    round_trip: float,
) -> list[Compared]:
    """Run each task in all ``cases`` before the next task, in an order that ``seed`` draws anew.

    The machine's speed drifts within seconds: cases that are measured one after the other cannot be compared.
    """
    drawn, of_tasks = random.Random(seed), TaskTools(tasks)
    agents = {
        case: Agent(clients, case.side, of_tasks, ChancePredictor(tasks, case.alpha, seed)) for case in cases
    }
    compared: list[Compared] = []
    for task in tasks:
        await clients.warm(task)
        done: dict[Case, Done] = {}
        for case in drawn.sample(list(cases), len(cases)):
            server.use(case.side.optimizations)
            done[case] = await agents[case].do(task)
        compared.append(Compared(task, done, round_trip))
    return compared


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
