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

from ..common.estimates import Estimate, median
from ..common.machine import describe_machine
from ..common.report import BenchReport, Seeds
from .agents import Agent, Clients, Done
from .figures import Case, Compared, sides_table, task_figures, tokens_identical, verdicts_table
from .overheads import overhead_figures, round_trip_s
from .server import BenchServer
from .sides import ENGINE_SIDE, ENGINE_SIDES, PREFIX_CACHED, SIDES, Side
from .tasks import ChancePredictor, Task, TaskTools, tasks_of

REASONING_TOKENS = 400
LATENCIES = {"short": 0.2, "long": 1.5}
"""Most seconds of a tool."""
AGENTS: Final = 8
"""That run at one time where the throughput is measured (SpecTools §5)."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much work a seed is, and how many there are unless the user says."""

    seeds: int
    tasks: dict[str, int]
    requests: int
    """Pairs of requests for each overhead."""
    throughput_tasks: int


SIZES = {
    True: Size(3, {"short": 2, "long": 1}, 20, AGENTS),
    False: Size(5, {"short": 6, "long": 1}, 40, 2 * AGENTS),
}
METHOD: Final = """\
Agents do tasks over HTTP with the official client: a request with its tools, a call, the tool, the final \
answer. Each task is done by all sides before the next task, in an order drawn anew, and sides are \
compared within a task: a figure is the median over the tasks of all seeds, its 90 % interval over the \
tasks (throughput_ratio_m8: over the seeds). The server is `agentrt serve`'s, with nano in f32, in a \
process of its own; the first 400 tokens of an answer that may call are a fixed text, decoded one by one. \
Tools wait for a time drawn evenly between 0 and 0.2 s (short) or 1.5 s (long). vanilla: no prefix is \
reused; prefix-cached: that of a task's earlier request is; client-side: `speculate` besides, with a \
predictor whose draft comes after 50 ms; engine-side: and with `tool_cache=True`. Predicted are Eqs. 5 and \
6 with K = 1 and what was measured of the same task. eq6_attainment is measured over predicted savings of \
engine-side over prefix-cached, eq6_attainment_over_client_side those of O2 and O3 alone, both from the \
last word before the call on, for every task whose tool is done while the model reasons, as sums over the \
tasks. extra_time_saved_pct_over_client_side is of whole tasks with short tools, in percent of vanilla's \
time (Figure 8); extra_ms_saved_over_client_side is of tasks whose tool is done while the model reasons, \
from the last word before the call on. A saving is 'not shown' where its interval spans 0. \
throughput_ratio_m8: tokens per second, mean of eight agents at once, engine-side by prefix-cached. \
*_overhead_ms_p50: an answer of 24 tokens over HTTP less the same inside the server's process."""
_MAX_TOKENS: Final = 1000
SHORT_CASES: Final = [
    *map(Case, dict.fromkeys((*SIDES, *ENGINE_SIDES))),
    Case(ENGINE_SIDE, 0.0),
]
"""What is compared with short tools."""

Progress = Callable[[str], None]


def run(
    *, quick: bool, workloads: Path | None, progress: Progress, seeds: Seeds | None = None
) -> BenchReport:
    """Run the bench on BFCL's multi-turn tasks in the folder ``workloads``, or on synthetic ones.

    ``seeds`` draw tasks and latencies: five, or three if ``quick``, where no count is given.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
    """
    size = SIZES[quick]
    return asyncio.run(_run(size, workloads, progress, (seeds or Seeds()).take(size.seeds)))


async def _run(size: Size, workloads: Path | None, progress: Progress, seeds: range) -> BenchReport:
    machine = describe_machine()
    tasks: dict[int, dict[str, list[Task]]] = {seed: {} for seed in seeds}
    for seed in seeds:  # before the work begins, so that a bad file ends the bench at once
        for name, most_s in LATENCIES.items():
            tasks[seed][name] = tasks_of(
                workloads, size.tasks[name], most_s, f"{name} {seed}", REASONING_TOKENS
            )
    compared: dict[str, list[Compared]] = {name: [] for name in LATENCIES}
    throughput: list[float] = []
    cases = {"short": SHORT_CASES, "long": [Case(side) for side in SIDES]}
    with BenchServer("nano", REASONING_TOKENS) as server:
        async with AsyncExitStack() as stack:
            clients = Clients(server, stack, _MAX_TOKENS)
            for seed in seeds:
                progress(f"tasks of seed {seed}, of {len(seeds)}")
                round_trip = await round_trip_s(server, clients, size.requests)
                for name, of_name in cases.items():
                    compared[name] += await _do_tasks(
                        server, clients, tasks[seed][name], of_name, f"{name} {seed}", round_trip
                    )
                throughput.append(await _throughput_ratio(clients, size, tasks[seed]["short"], seed))
            progress("what HTTP adds")
            overheads = await overhead_figures(server, clients, size.requests)
    figures: dict[str, Estimate] = task_figures(compared["short"])
    figures["throughput_ratio_m8"] = median(throughput)
    figures["tokens_identical"] = tokens_identical([one for each in compared.values() for one in each])
    return BenchReport(
        bench="toolcache",
        machine=machine,
        figures=figures | overheads,
        tables=(sides_table(compared), verdicts_table(figures)),
        method=METHOD,
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
