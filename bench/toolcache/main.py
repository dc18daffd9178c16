"""The tool cache bench: tasks run by several sides, against Eqs. 4-6 of SpecTools (Figure 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from agentrt.drafts import Speculator

from ..common.bench_model import BenchModel, open_given_models
from ..common.machine import Machine, describe_machine
from ..common.repetitions import Seeds, spread_cells, spread_columns
from ..common.report import BenchReport, Table
from . import figures, tools
from .attainment import decode_s, predictions
from .clients import Clients
from .given import GivenTasks, draft_figures, load_drafts
from .overheads import overhead, round_trip_s
from .repetition import Case, Repetition, repeat
from .server import BenchServer
from .sides import CLIENT_SIDE, ENGINE_SIDE, ENGINE_SIDES, PREFIX_CACHED, SIDES
from .tasks import Task, tasks_of
from .throughput import AGENTS, tokens_per_second

REASONING_TOKENS = 800
LATENCIES = {"short": 0.5, "long": 3.0}
"""Most seconds of a tool."""


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
GIVEN_SIZES = {
    True: Size(1, {"short": 2, "long": 1}, 10, AGENTS, (1.0,)),
    False: Size(3, {"short": 6, "long": 4}, 30, AGENTS, (1.0, 0.5)),
}
"""For a given model, whose tokens take longer."""
_MAX_TOKENS = 1000
_GIVEN_MAX_TOKENS = 300
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

_GIVEN_METHOD = """\
{repetitions} repetitions, with the seeds {seeds}; a figure is the median of the repetitions. {model} in \
f32, where equal histories give equal tokens, is served in a process of its own, and answers {tasks} of \
{source} in its own chat template: text, a call, the tool, the final answer, at most {most} tokens. \
Nothing is forced: it is told to say first what it will look up, and where it then writes no call the \
question is asked without that; questions answered without a call are left out (call_share is the share of \
the others), and the right draft of a task is the call that it has made before. Tools wait for a time \
drawn evenly between 0 and 0.5 s (short) or 3 s (long). Sides, alpha, switches and figures are those of \
the bench on nano, but the reasoning is what the model writes before its call. A task in which it writes \
less than two tokens, or in which the tool is not done before the call, has no part in eq6_*, o2_* and \
o3_*; without any other they are left out, as reasoning_slowdown_pct is where the model writes nothing \
before its calls. tokens_identical can be 0 without a fault where the model spells its calls otherwise \
than its template: the next request has the template's spelling, an answer that the engine continues the \
model's. A draft model (--draft) takes one thread, the main model the others; draft_right_share is the \
share of tasks in which the first one drafts the model's call, draft_s the median time it takes while \
nothing else runs."""

Progress = Callable[[str], None]


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    seeds: Seeds | None = None,
    model: str | None = None,
    drafts: Sequence[str] = (),
) -> BenchReport:
    """Run the bench on BFCL's multi-turn tasks in the folder ``workloads``, or on synthetic ones.

    ``seeds`` are those of the repetitions: five, or three if ``quick``, where no count is given. With
    ``model``, this model answers questions of its own, BFCL's single-turn tasks where there is a folder, one
    repetition or three; ``drafts`` are draft models for it.

    Raises:
        WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
        BenchModelError: the model calls no tools.
    """
    size = (SIZES if model is None else GIVEN_SIZES)[quick]
    drawn = (seeds or Seeds()).take(size.repetitions)
    if model is None:
        return asyncio.run(_run(size, workloads, progress, drawn))
    given = open_given_models({model, *drafts}, progress)
    main, others = given[model], [given[draft] for draft in drafts]
    return asyncio.run(_run_given(main, others, size, workloads, progress, drawn))


@dataclass(slots=True)
class _Measured:
    """What the repetitions have measured."""

    done: dict[str, list[Repetition]] = field(default_factory=lambda: {name: [] for name in LATENCIES})
    figures: list[dict[str, float]] = field(default_factory=list)
    round_trip_ms: list[float] = field(default_factory=list)
    decode_ms: list[float] = field(default_factory=list)

    def report(self, machine: Machine, size: Size, accepted: float | None, method: str) -> BenchReport:
        """Return the report; ``accepted`` is the mean number of accepted tokens of a draft, if any."""
        found = figures.medians(self.figures)
        found["tokens_identical"] = float(all(map(figures.tokens_identical, self.done.values())))
        if accepted is not None:
            found["o2_tokens_per_forward"] = accepted + 1
        return BenchReport(
            bench="toolcache",
            machine=machine,
            figures=found,
            tables=(
                figures.sides_table(self.done),
                figures.optimizations_table(self.done["short"], (*size.alphas, 0.0)),
                _parameters(self),
                figures.spread_table(self.figures),
            ),
            method=method,
        )


async def _run(size: Size, workloads: Path | None, progress: Progress, seeds: range) -> BenchReport:
    machine = describe_machine()
    measured = _Measured()
    source = ""
    tasks: dict[int, dict[str, list[Task]]] = {}
    for seed in seeds:  # before the work begins, so that a bad file ends the bench at once
        tasks[seed] = {}
        for name, most_s in LATENCIES.items():
            source, tasks[seed][name] = tasks_of(
                workloads, size.tasks[name], most_s, f"{name} {seed}", REASONING_TOKENS
            )
    with BenchServer("nano", REASONING_TOKENS) as server:
        async with AsyncExitStack() as stack:
            clients = Clients(server, stack, _MAX_TOKENS)
            for seed in seeds:
                progress(f"repetition with seed {seed}, of {len(seeds)}")
                await _repeat(server, clients, size, tasks[seed], seed, measured)
        accepted = server.accepted_per_draft()
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
    return measured.report(machine, size, accepted, method)


async def _run_given(
    model: BenchModel,
    drafts: Sequence[BenchModel],
    size: Size,
    workloads: Path | None,
    progress: Progress,
    seeds: range,
) -> BenchReport:
    machine = describe_machine()
    measured = _Measured()
    threads = max(1, machine.usable_cores - 1) if drafts else None
    with BenchServer(str(model.path), None, threads) as server:
        async with AsyncExitStack() as stack:
            clients = Clients(server, stack, _GIVEN_MAX_TOKENS)
            given = GivenTasks(server, clients, workloads, progress)
            predictors = load_drafts(drafts)
            for seed in seeds:
                progress(f"repetition with seed {seed}, of {len(seeds)}: calls of {model.title}")
                tasks = {
                    name: await given.take(size.tasks[name], most_s, f"{name} {seed}")
                    for name, most_s in LATENCIES.items()
                }
                progress(f"repetition with seed {seed}: the sides")
                await _repeat(server, clients, size, tasks, seed, measured, predictors)
                measured.figures[-1] |= await draft_figures(predictors, tasks["short"])
        accepted = server.accepted_per_draft()
    method = _GIVEN_METHOD.format(
        repetitions=len(seeds),
        seeds=f"{seeds[0]} to {seeds[-1]}",
        model=model.title,
        tasks=" and ".join(f"{count} {name}" for name, count in size.tasks.items()),
        source=given.source,
        most=_GIVEN_MAX_TOKENS,
    )
    report = measured.report(machine, size, accepted, method)
    tables = (*report.tables, figures.drafts_table(measured.done["short"])) if drafts else report.tables
    return report.model_copy(
        update={"figures": {**report.figures, "call_share": given.call_share}, "tables": tables}
    )


async def _repeat(
    server: BenchServer,
    clients: Clients,
    size: Size,
    tasks: dict[str, list[Task]],
    seed: int,
    measured: _Measured,
    drafts: Mapping[str, Speculator] = MappingProxyType({}),
) -> None:
    """Measure everything once more."""
    round_trip = await round_trip_s(server, clients, size.requests)
    cases = [*_cases(size.alphas), *(Case(s, draft=d) for d in drafts for s in (CLIENT_SIDE, ENGINE_SIDE))]
    short = await repeat(server, clients, tasks["short"], cases, f"short {seed}", drafts)
    long = await repeat(server, clients, tasks["long"], [Case(side) for side in SIDES], f"long {seed}")
    measured.done["short"].append(short)
    measured.done["long"].append(long)
    predicted = predictions(short, round_trip)
    added = await overhead(server, clients, size.requests)
    measured.figures.append(
        {
            **figures.task_figures(short, predicted),
            "throughput_ratio_m8": await _throughput_ratio(clients, size, tasks["short"], seed),
            "server_overhead_ms_p50": 1000 * added.whole_s,
            "stream_ttft_overhead_ms_p50": 1000 * added.first_text_s,
        }
    )
    measured.round_trip_ms.append(1000 * round_trip)
    if (seconds := decode_s(predicted)) is not None:
        measured.decode_ms.append(1000 * seconds)


def _cases(alphas: tuple[float, ...]) -> list[Case]:
    """Return the cases with short tools."""
    cases = [Case(side) for side in SIDES]
    cases += [Case(side, alpha) for alpha in alphas for side in (CLIENT_SIDE, *ENGINE_SIDES)]
    cases += [Case(side, 0.0) for side in (CLIENT_SIDE, ENGINE_SIDE)]
    return list(dict.fromkeys(cases))


async def _throughput_ratio(clients: Clients, size: Size, tasks: list[Task], seed: int) -> float:
    """Return engine-side's tokens per second by prefix-cached's, which comes first with odd seeds."""
    many = (tasks * size.throughput_tasks)[: size.throughput_tasks]
    sides = (PREFIX_CACHED, ENGINE_SIDE)
    rates = {
        side: await tokens_per_second(clients, side, many, str(seed))
        for side in (sides if seed % 2 else reversed(sides))
    }
    return rates[ENGINE_SIDE] / rates[PREFIX_CACHED]


def _parameters(measured: _Measured) -> Table:
    rows = {"2o, a request": measured.round_trip_ms, "delta, a token": measured.decode_ms}
    return Table(
        title="Parameters of Eqs. 4-6",
        columns=("parameter", *spread_columns("milliseconds")),
        rows=tuple((name, *spread_cells(values, 4)) for name, values in rows.items() if values),
    )
