"""One model under the schedules of the scheduler bench, on each engine in turn."""

from __future__ import annotations

import random
import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from ..common.report import Cell, Table
from ..engines.local import OURS
from ..engines.side import Answer, Run
from .engines import GENAI, Arrival, Engine
from .load import LengthPairs, Lengths, recorded_arrivals

LOAD: Final = 0.7
"""Share of the machine that the proactive requests alone would take."""
LENGTHS: Final = (128, 512)
"""Bounds in prompt tokens between the groups whose waits are reported separately."""
_PATIENCE: Final = 1.5
"""A user reads and thinks when the answer is there: beside others that takes so many times as long."""
_LONG_PROMPT: Final = 512

Rounds: TypeAlias = list[tuple[Run, Run, Run]]
"""Of one engine, for each repetition: the user alone, beside the background, and a backlog alone."""


@dataclass(frozen=True, slots=True)
class LiveSize:
    """Amount of work for one model."""

    users: int
    repetitions: int
    backlog: int
    heavier: tuple[float, ...] = ()
    """More loads than :data:`LOAD`, under which the user is served once."""
    longest: int = 1500
    """Tokens of the longest prompt: longer ones are shortened."""


@dataclass(frozen=True, slots=True)
class _Load:
    """A user's schedule, and the background schedule at each load."""

    users: list[Arrival]
    alone: Run
    """The user's questions on the idle engine that the schedule was made with."""
    mixed: dict[float, list[Arrival]]


def measure_live(
    name: str,
    lengths: Lengths,
    workloads: Path | None,
    size: LiveSize,
    engines: Mapping[str, Engine],
    progress: Callable[[str], None],
) -> tuple[dict[str, float], list[Table]]:
    """Return the figures of model ``name``, and tables of all ``engines``, of which one is :data:`OURS`.

    ``workloads`` is the folder of recorded arrivals, if there is one.
    """
    heavier: list[tuple[float, str, Run]] = []
    runs: dict[str, Rounds] = {each: [] for each in engines}
    most = min(engine.context_length for engine in engines.values()) // 2
    lengths = lengths.fitting(min(most, size.longest))
    for repetition in range(size.repetitions):
        rng = random.Random(repetition)
        load = _load(engines[OURS], lengths, workloads, size, rng)
        backlog = _proactive(lengths.any_proactive(), [0.0] * size.backlog, rng)
        for each in list(engines)[:: 1 if repetition % 2 == 0 else -1]:
            progress(f"{name}: {each}, round {repetition + 1}")
            engine = engines[each]
            alone = load.alone if each == OURS else one_by_one(engine, load.users)
            runs[each].append((alone, engine.serve(load.mixed[LOAD]), engine.serve(backlog)))
            if not repetition:
                heavier += [(share, each, engine.serve(load.mixed[share])) for share in size.heavier]
    heavier += [(LOAD, each, mixed) for each, rounds in runs.items() for _, mixed, _ in rounds]
    computes = {each: engine.computes for each, engine in engines.items()}
    return live_figures(runs), [_table(name, runs, computes), _waits(name, heavier)]


def _proactive(pairs: LengthPairs, times: Sequence[float], rng: random.Random) -> list[Arrival]:
    return [Arrival(at, *rng.choice(pairs), False) for at in times]


def _load(
    engine: Engine, lengths: Lengths, workloads: Path | None, size: LiveSize, rng: random.Random
) -> _Load:
    """Proactive requests for a share of the machine, and a user with think time between questions."""
    probe = _proactive(lengths.any_proactive(), [0.0] * 4, rng)
    seconds = engine.serve(probe).elapsed_s / len(probe)
    think = now = 2 * seconds
    asked = [Arrival(0.0, *rng.choice(lengths.reactive), True) for _ in range(size.users)]
    alone = one_by_one(engine, asked)
    users: list[Arrival] = []
    for question, answer in zip(asked, alone.answers, strict=True):
        now += rng.expovariate(1 / think)
        users.append(replace(question, at_s=now))
        now += _PATIENCE * answer.total_s
    mixed: dict[float, list[Arrival]] = {}
    for share in (LOAD, *size.heavier):
        rate = share / seconds
        times = recorded_arrivals(workloads, max(4, round(now * rate)), rate, rng)
        background = _proactive(lengths.any_proactive(), times, rng)
        mixed[share] = sorted([*background, *users], key=lambda arrival: arrival.at_s)
    return _Load(users, alone, mixed)


def one_by_one(engine: Engine, users: Sequence[Arrival]) -> Run:
    """Run the user's questions on an idle engine, without think time."""
    runs = [engine.serve([replace(user, at_s=0.0)]) for user in users]
    return Run(tuple(run.answers[0] for run in runs), sum(run.elapsed_s for run in runs))


def live_figures(runs: Mapping[str, Rounds]) -> dict[str, float]:
    """Return the figures, from the rounds of each engine."""
    first = {name: _quantile([each.first_s for each in _reactive(of)], 0.95) for name, of in runs.items()}
    ours = runs[OURS]
    over = list(over_unloaded(ours, _LONG_PROMPT)) or list(over_unloaded(ours, 0))
    figures = {
        "reactive_p95_ttft_ms": 1e3 * first[OURS],
        **{
            f"reactive_p95_ttft_ratio_vs_{name}": theirs / first[OURS]
            for name, theirs in first.items()
            if name != OURS
        },
        "reactive_p95_ttft_over_unloaded": _quantile(over, 0.95),
        "proactive_throughput_ratio_vs_openvino_genai": statistics.median(
            theirs[2].elapsed_s / own[2].elapsed_s for own, theirs in zip(ours, runs[GENAI], strict=True)
        ),
    }
    waits = [wait for _, mixed, _ in ours for wait in mixed.preemption_s]
    if waits:
        figures["preemption_p99_ms"] = 1e3 * _quantile(waits, 0.99)
    return figures


def over_unloaded(rounds: Rounds, least_tokens: int) -> Iterator[float]:
    """Yield the time to the first token beside the background over that of the same question alone.

    Questions with fewer prompt tokens than ``least_tokens`` are left out.
    """
    for alone, mixed, _ in rounds:
        beside = (each for each in mixed.answers if each.request.reactive)
        for quiet, busy in zip(alone.answers, beside, strict=True):
            if quiet.prompt_tokens >= least_tokens:
                yield busy.first_s / quiet.first_s


def _table(name: str, runs: Mapping[str, Rounds], computes: Mapping[str, str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for engine, rounds in runs.items():
        quiet = [each.first_s for alone, _, _ in rounds for each in alone.answers]
        busy = [each.first_s for each in _reactive(rounds)]
        speeds = [
            sum(each.prompt_tokens + each.new_tokens for each in backlog.answers) / backlog.elapsed_s
            for _, _, backlog in rounds
        ]
        rows.append(
            (
                engine,
                computes[engine],
                *(1e3 * _quantile(times, share) for times in (quiet, busy) for share in (0.5, 0.95)),
                1e3 * statistics.median(each.token_s for each in _reactive(rounds)),
                statistics.median(speeds),
            )
        )
    return Table(
        title=f"{name}: a user beside proactive work at {LOAD:.0%} load",
        columns=(
            *("engine", "computes in", "alone TTFT p50 ms", "p95", "beside TTFT p50 ms", "p95"),
            *("beside ms a token", "proactive only, tokens/s"),
        ),
        rows=tuple(rows),
    )


def _waits(name: str, runs: Sequence[tuple[float, str, Run]]) -> Table:
    """Time to the first token by the background's load and by the length of the question."""
    found: dict[tuple[float, int, str], list[float]] = {}
    for share, engine, run in runs:
        for one in run.answers:
            if one.request.reactive:
                length = bisect_right(LENGTHS, one.prompt_tokens)
                found.setdefault((share, length, engine), []).append(one.first_s)
    bounds = (0, *LENGTHS)
    rows: list[tuple[Cell, ...]] = [
        (
            f"{share:.0%}",
            f"from {bounds[length]} tokens",
            engine,
            len(times),
            *(1e3 * _quantile(times, share_of) for share_of in (0.5, 0.95)),
        )
        for (share, length, engine), times in sorted(found.items())
    ]
    return Table(
        title=f"{name}: time to the first token by background load and length of the question",
        columns=("background", "question", "engine", "questions", "p50 ms", "p95 ms"),
        rows=tuple(rows),
    )


def _reactive(rounds: Rounds) -> list[Answer]:
    return [each for _, mixed, _ in rounds for each in mixed.answers if each.request.reactive]


def _quantile(values: Sequence[float], share: float) -> float:
    import numpy as np

    return float(np.quantile(values, share))
