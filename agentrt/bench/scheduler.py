"""The scheduler bench: what a user waits while the background is busy, and what the background loses."""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ._scheduler_load import Lengths, recorded_arrivals, recorded_lengths
from ._scheduler_sides import Arrival, Run, Served, Side, SideName
from ._scheduler_simulated import (
    SYSTEMS,
    Point,
    decision_us,
    figure6,
    figure7,
    latency_ratios,
    sustained_ratio,
)
from .machine import describe_machine
from .report import BenchReport, Cell, Table

_SIDES: Final[tuple[SideName, SideName]] = ("agentrt", "openvino_genai")
_LOAD: Final = 0.7
"""Share of the machine that the proactive requests alone would take."""
_LONG_PROMPT: Final = 512


@dataclass(frozen=True, slots=True)
class _Size:
    """How much one run of the bench does."""

    users: int
    repetitions: int
    backlog: int
    rates: tuple[float, ...]
    intervals: tuple[float, ...]
    simulated: int
    models: tuple[str, ...]


_QUICK = _Size(8, 1, 6, (0.05, 0.2, 0.8), (20.0,), 12, ("nano",))
_FULL = _Size(12, 3, 12, (0.02, 0.05, 0.1, 0.2, 0.4, 0.8), (10.0, 20.0, 40.0), 40, ("nano", "0.5B"))


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Measure; ``workloads`` is a folder of public sets whose lengths and arrivals are taken."""
    size = _QUICK if quick else _FULL
    lengths = recorded_lengths(workloads)
    figures: dict[str, float] = {}
    tables: list[Table] = []
    for model in size.models:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            live = _Live(model, _model_path(model, folder, progress), lengths, workloads, size, progress)
            own, table = live.measure()
        # The figures are those of the larger model measured, which comes last; the table has all.
        figures |= own
        tables.append(table)
    progress("greedy tokens under every policy")
    figures["tokens_identical"] = float(_tokens_identical())
    simulated, drawn = _simulate(lengths, size, progress)
    figures |= simulated
    for waiting in (1_000, 10_000):
        progress(f"a decision while {waiting} wait")
        figures[f"decision_us_p50_at_{waiting}"] = decision_us(waiting, 300)
    return BenchReport(
        bench="scheduler",
        machine=describe_machine(),
        figures=figures,
        tables=(*tables, *drawn),
        method=_method(size, lengths),
    )


def _model_path(model: str, folder: Path, progress: Callable[[str], None]) -> str:
    from ..runtime.model import open_model_directory
    from .random_gguf import HALF_BILLION, write_random_gguf

    if model == "nano":
        return str(open_model_directory(model).path)
    progress("writing a model of 0.5 B random weights in 8 bits")
    file = folder / "random-0.5b.gguf"
    write_random_gguf(file, HALF_BILLION)
    return str(open_model_directory(file).path)  # converted once, for both sides


@dataclass(frozen=True, slots=True)
class _Load:
    """One mixed schedule, and what its user would have alone."""

    mixed: list[Arrival]
    users: list[Arrival]


class _Live:
    """One model on this machine, both sides in turns."""

    def __init__(
        self,
        name: str,
        model: str,
        lengths: Lengths,
        workloads: Path | None,
        size: _Size,
        progress: Callable[[str], None],
    ) -> None:
        self._name = name
        self._model = model
        self._lengths = lengths
        self._workloads = workloads
        self._size = size
        self._progress = progress

    def measure(self) -> tuple[dict[str, float], Table]:
        """The figures of this model, and a table of both sides."""
        runs: dict[str, list[tuple[Run, Run, Run]]] = {side: [] for side in _SIDES}
        kept: list[float] = []
        with ExitStack() as stack:
            self._progress(f"{self._name}: loading both sides")
            sides = {name: stack.enter_context(Side(name, self._model)) for name in _SIDES}
            most = min(side.context_length for side in sides.values()) // 2
            lengths = self._lengths.fitting(min(most, 1500))
            for repetition in range(self._size.repetitions):
                rng = random.Random(repetition)
                load = self._load(lengths, sides["agentrt"], rng)
                backlog = self._backlog(lengths, rng)
                for name in _SIDES if repetition % 2 == 0 else _SIDES[::-1]:
                    self._progress(f"{self._name}: {name}, round {repetition + 1}")
                    side = sides[name]
                    alone, mixed = _one_by_one(side, load.users), side.serve(load.mixed)
                    runs[name].append((alone, mixed, side.serve(backlog)))
                kept.append(self._kept(sides["agentrt"], load, backlog, runs["agentrt"][-1]))
        return self._figures(runs, kept), self._table(runs)

    def _load(self, lengths: Lengths, side: Side, rng: random.Random) -> _Load:
        """Proactive work that fills :data:`_LOAD` of the machine, and a user who thinks between questions."""
        probe = [Arrival(0.0, *rng.choice(lengths.any_proactive()), False) for _ in range(4)]
        seconds = side.serve(probe).elapsed_s / len(probe)
        gap = 4 * seconds
        now, users = gap, []
        for _ in range(self._size.users):
            users.append(Arrival(now, *rng.choice(lengths.reactive), True))
            now += gap / 2 + rng.expovariate(2 / gap)
        rate = _LOAD / seconds
        count = max(4, round(now * rate))
        times = recorded_arrivals(self._workloads, count, rate, rng)
        background = [Arrival(at, *rng.choice(lengths.any_proactive()), False) for at in times]
        return _Load(sorted([*background, *users], key=lambda arrival: arrival.at_s), users)

    def _backlog(self, lengths: Lengths, rng: random.Random) -> list[Arrival]:
        """Proactive requests that are all there at once."""
        return [Arrival(0.0, *rng.choice(lengths.any_proactive()), False) for _ in range(self._size.backlog)]

    def _kept(self, side: Side, load: _Load, backlog: list[Arrival], runs: tuple[Run, Run, Run]) -> float:
        """How far the background gets beside a user, of how far it could in the time that the user leaves."""
        alone, _, idle = runs
        few = range(0, len(load.users), 4)
        begin = idle.elapsed_s / (len(few) + 1)
        users = [replace(load.users[user], at_s=begin * place) for place, user in enumerate(few, 1)]
        needed = idle.elapsed_s + sum(alone.served[user].total_s for user in few)
        both = side.serve([*backlog, *users])
        return needed / max(one.total_s for one in both.served if not one.arrival.reactive)

    def _figures(
        self, runs: dict[str, list[tuple[Run, Run, Run]]], kept: Sequence[float]
    ) -> dict[str, float]:
        ours, theirs = (_reactive(runs[name]) for name in _SIDES)
        pairs = [(a, m) for a, m, _ in runs["agentrt"]]
        over = list(_over_unloaded(pairs, _LONG_PROMPT)) or list(_over_unloaded(pairs, 0))
        figures = {
            "reactive_p95_ttft_ms": 1e3 * _quantile(ours, 0.95),
            "reactive_p95_ttft_ratio_vs_openvino_genai": _quantile(theirs, 0.95) / _quantile(ours, 0.95),
            "reactive_p95_ttft_over_unloaded": _quantile(over, 0.95),
            "reactive_added_wait_p99_ms": 1e3 * _quantile(list(_added_waits(pairs)), 0.99),
            "proactive_throughput_ratio_vs_openvino_genai": statistics.median(
                t[2].elapsed_s / o[2].elapsed_s
                for o, t in zip(runs["agentrt"], runs["openvino_genai"], strict=True)
            ),
            "proactive_kept_fraction": statistics.median(kept),
        }
        waits = [wait for _, mixed, _ in runs["agentrt"] for wait in mixed.preemption_s]
        if waits:
            figures["preemption_p99_ms"] = 1e3 * _quantile(waits, 0.99)
        return figures

    def _table(self, runs: dict[str, list[tuple[Run, Run, Run]]]) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for name in _SIDES:
            alone, mixed, backlog = zip(*runs[name], strict=True)
            quiet = [s.first_s for run in alone for s in run.served]
            busy = _reactive(runs[name])
            pace = [_pace(s) for run in mixed for s in run.served if s.arrival.reactive]
            tokens = [sum(s.prompt_tokens + s.arrival.answer_tokens for s in run.served) for run in backlog]
            rows.append(
                (
                    name,
                    *(1e3 * _quantile(quiet, q) for q in (0.5, 0.95)),
                    *(1e3 * _quantile(busy, q) for q in (0.5, 0.95)),
                    1e3 * statistics.median(pace),
                    statistics.median(
                        each / run.elapsed_s for each, run in zip(tokens, backlog, strict=True)
                    ),
                )
            )
        return Table(
            title=f"{self._name}: a user beside proactive work at {_LOAD:.0%} load",
            columns=(
                *("engine", "alone TTFT p50 ms", "p95", "beside TTFT p50 ms", "p95"),
                *("beside ms a token", "proactive only, tokens/s"),
            ),
            rows=tuple(rows),
        )


def _one_by_one(side: Side, users: Sequence[Arrival]) -> Run:
    """The user's questions on an idle engine, without the time in which the user thinks."""
    runs = [side.serve([replace(user, at_s=0.0)]) for user in users]
    return Run(tuple(run.served[0] for run in runs), sum(run.elapsed_s for run in runs))


def _reactive(runs: Sequence[tuple[Run, Run, Run]]) -> list[float]:
    return [served.first_s for _, mixed, _ in runs for served in mixed.served if served.arrival.reactive]


def _pace(served: Served) -> float:
    return (served.total_s - served.first_s) / max(1, served.arrival.answer_tokens - 1)


def _matched(pairs: Sequence[tuple[Run, Run]]) -> Iterator[tuple[Served, Served]]:
    """Each of the user's requests alone and beside the background."""
    for alone, mixed in pairs:
        beside = (served for served in mixed.served if served.arrival.reactive)
        yield from zip(alone.served, beside, strict=True)


def _over_unloaded(pairs: Sequence[tuple[Run, Run]], least_tokens: int) -> Iterator[float]:
    for alone, beside in _matched(pairs):
        if alone.prompt_tokens >= least_tokens:
            yield beside.first_s / alone.first_s


def _added_waits(pairs: Sequence[tuple[Run, Run]]) -> Iterator[float]:
    for alone, beside in _matched(pairs):
        assert alone.waited_s is not None
        assert beside.waited_s is not None
        yield max(0.0, beside.waited_s - alone.waited_s)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def _tokens_identical() -> bool:
    """Whether nano says the same under every policy, all at once, as each request alone; in f32."""
    import asyncio

    from ..priority import Priority
    from ..runtime import LocalRuntime, RuntimeConfig
    from ..runtime.scheduler import POLICIES

    prompts = [f"{'note ' * (9 * number)}What is the weather in Oslo?" for number in range(10)]

    async def answers(runtime: LocalRuntime) -> list[tuple[int, ...]]:
        made = await asyncio.gather(
            *(
                runtime.agenerate(
                    [{"role": "user", "content": prompt}],
                    max_tokens=24,
                    priority=Priority.PROACTIVE if number % 3 else Priority.REACTIVE,
                )
                for number, prompt in enumerate(prompts)
            )
        )
        return [generation.token_ids for generation in made]

    said: list[list[tuple[int, ...]]] = []
    for policy in POLICIES:
        config = RuntimeConfig.model_validate(
            {
                "inference_precision": "f32",
                "kv_cache_precision": "f32",
                "memory_bytes": 64 * 2**20,
                "policy": policy,
            }
        )
        with LocalRuntime.open("nano", config) as runtime:
            if not said:
                said.append(
                    [
                        runtime.generate([{"role": "user", "content": prompt}], max_tokens=24).token_ids
                        for prompt in prompts
                    ]
                )
            said.append(asyncio.run(answers(runtime)))
    return all(each == said[0] for each in said)


def _simulate(
    lengths: Lengths, size: _Size, progress: Callable[[str], None]
) -> tuple[dict[str, float], list[Table]]:
    ours, baseline, same_machine = SYSTEMS
    progress("simulated Core Ultra: proactive work only")
    alone = figure6(lengths, size.rates, size.simulated)
    progress("simulated Core Ultra: with a user")
    mixed = figure7(lengths, size.rates, size.intervals, size.simulated)
    figures = {}
    for other, suffix in ((baseline, ""), (same_machine, "_same_machine")):
        latency = list(latency_ratios(mixed, ours, other))
        rates = [ratio for kind in lengths.proactive if (ratio := sustained_ratio(alone, ours, other, kind))]
        if latency:
            figures[f"sim_reactive_latency_ratio{suffix}"] = statistics.geometric_mean(latency)
        if rates:
            figures[f"sim_proactive_rate_ratio{suffix}"] = statistics.geometric_mean(rates)
    return figures, [
        _points_table("Fig. 6 of Agent.xpu, simulated: proactive work only", alone, "workload"),
        _points_table("Fig. 7 of Agent.xpu, simulated: proactive work and a user", mixed, "think time"),
    ]


def _points_table(title: str, points: Sequence[Point], first: str) -> Table:
    return Table(
        title=title,
        columns=(first, "system", "proactive requests/s", "reactive ms a token", "proactive ms a token"),
        rows=tuple(
            (
                point.workload if point.interval_s is None else f"every {point.interval_s:g} s",
                point.system,
                point.rate,
                point.reactive_ms,
                point.proactive_ms,
            )
            for point in points
        ),
    )


def _method(size: _Size, lengths: Lengths) -> str:
    return (
        f"Live: {' and '.join(size.models)} on this machine, agentrt and openvino_genai's "
        "ContinuousBatchingPipeline (256 tokens a step, split prompts, at most 16 sequences, no "
        "prefix cache) in a process each, both with OpenVINO's own precisions and threads, in turns, "
        f"the other one idle. A schedule of proactive requests ({_LOAD:.0%} of the machine) and of a "
        f"user who asks one thing after another ({size.users} questions, {size.repetitions} rounds), "
        f"{lengths.source}; arrivals of the background in the shape of the Azure conversation trace "
        "where the workloads folder has it, else Poisson. Times count from when a request was meant "
        "to arrive. 'Over unloaded' compares each question with the same one on the idle engine. "
        "Added wait: until the first kernel, beyond that on the idle engine. Preemption: what was "
        "left of the background kernel that ran when a question came. Kept fraction: the time that a "
        "backlog and a user's questions need one after the other, over the time that the backlog "
        "needs beside them. The 0.5 B model has random int8 weights (GGUF, Q8_0). Simulated: a Core "
        "Ultra 5 125H from published peak figures; nothing was measured on one. Its baseline, "
        "continuous batching in order of arrival on its CPU at the efficiency that llama.cpp showed "
        "elsewhere, stands for llama.cpp; 'same machine' is the same policy on its NPU and GPU. "
        "Latency ratios are geometric means over Fig. 7's points. A rate is sustained while the "
        "normalized latency is at most twice the baseline's at the lowest rate. Decisions: the median "
        "while so many requests wait, on that simulated machine."
    )
