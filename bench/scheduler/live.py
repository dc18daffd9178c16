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
from .load import Lengths, recorded_arrivals
from .peer import Peer
from .sides import Arrival, Run, Served, Side

LOAD: Final = 0.7
"""Share of the machine that the proactive requests alone would take."""
LENGTHS: Final = (128, 512)
"""Bounds in prompt tokens between the groups whose waits are reported separately."""
_PATIENCE: Final = 1.5
"""A user reads and thinks when the answer is there: beside others that takes so many times as long."""
_LONG_PROMPT: Final = 512

_Rounds: TypeAlias = list[tuple[Run, Run, Run]]
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


class Live:
    """One model on this machine, on all engines in turn, of which one is agentrt."""

    def __init__(
        self,
        name: str,
        lengths: Lengths,
        workloads: Path | None,
        size: LiveSize,
        engines: Mapping[str, Side | Peer],
        progress: Callable[[str], None],
    ) -> None:
        """``name`` is the model's; ``workloads`` is the folder of recorded arrivals, if there is one."""
        self._name = name
        self._lengths = lengths
        self._workloads = workloads
        self._size = size
        self._engines = engines
        self._progress = progress

    def measure(self) -> tuple[dict[str, float], list[Table]]:
        """Return the figures of this model, and tables of all engines."""
        kept: list[float] = []
        heavier: list[tuple[float, str, Run]] = []
        engines, own = self._engines, self._engines["agentrt"]
        runs: dict[str, _Rounds] = {name: [] for name in engines}
        most = min(engine.context_length for engine in engines.values()) // 2
        lengths = self._lengths.fitting(min(most, self._size.longest))
        for repetition in range(self._size.repetitions):
            rng = random.Random(repetition)
            load = self._load(lengths, own, rng)
            backlog = self._backlog(lengths, rng)
            for name in list(engines)[:: 1 if repetition % 2 == 0 else -1]:
                self._progress(f"{self._name}: {name}, round {repetition + 1}")
                engine = engines[name]
                alone = load.alone if name == "agentrt" else _one_by_one(engine, load.users)
                mixed = engine.serve(load.mixed[LOAD])
                runs[name].append((alone, mixed, engine.serve(backlog)))
                if not repetition:
                    heavier += [
                        (share, name, engine.serve(load.mixed[share])) for share in self._size.heavier
                    ]
            kept.append(self._kept(own, load, backlog, runs["agentrt"][-1]))
        heavier += [(LOAD, name, mixed) for name, rounds in runs.items() for _, mixed, _ in rounds]
        return self._figures(runs, kept), [self._table(runs), self._waits(heavier)]

    def _load(self, lengths: Lengths, side: Side | Peer, rng: random.Random) -> _Load:
        """Proactive requests for a share of the machine, and a user with think time between questions."""
        probe = [Arrival(0.0, *rng.choice(lengths.any_proactive()), False) for _ in range(4)]
        seconds = side.serve(probe).elapsed_s / len(probe)
        think = now = 2 * seconds
        asked = [Arrival(0.0, *rng.choice(lengths.reactive), True) for _ in range(self._size.users)]
        alone = _one_by_one(side, asked)
        users: list[Arrival] = []
        for question, answer in zip(asked, alone.served, strict=True):
            now += rng.expovariate(1 / think)
            users.append(replace(question, at_s=now))
            now += _PATIENCE * answer.total_s
        mixed: dict[float, list[Arrival]] = {}
        for share in (LOAD, *self._size.heavier):
            rate = share / seconds
            times = recorded_arrivals(self._workloads, max(4, round(now * rate)), rate, rng)
            background = [Arrival(at, *rng.choice(lengths.any_proactive()), False) for at in times]
            mixed[share] = sorted([*background, *users], key=lambda arrival: arrival.at_s)
        return _Load(users, alone, mixed)

    def _backlog(self, lengths: Lengths, rng: random.Random) -> list[Arrival]:
        """Proactive requests that all arrive at once."""
        return [Arrival(0.0, *rng.choice(lengths.any_proactive()), False) for _ in range(self._size.backlog)]

    def _kept(
        self, side: Side | Peer, load: _Load, backlog: list[Arrival], runs: tuple[Run, Run, Run]
    ) -> float:
        """Proactive tokens beside a user as a share of those possible in the time the user leaves idle."""
        alone, _, idle = runs
        few = range(0, len(load.users), 4)
        begin = idle.elapsed_s / (len(few) + 1)
        users = [replace(load.users[user], at_s=begin * place) for place, user in enumerate(few, 1)]
        needed = idle.elapsed_s + sum(alone.served[user].total_s for user in few)
        both = side.serve([*backlog, *users])
        return needed / max(one.total_s for one in both.served if not one.arrival.reactive)

    def _figures(self, runs: dict[str, _Rounds], kept: Sequence[float]) -> dict[str, float]:
        first = {name: _quantile(_reactive(rounds), 0.95) for name, rounds in runs.items()}
        pairs = [(a, m) for a, m, _ in runs["agentrt"]]
        over = list(_over_unloaded(pairs, _LONG_PROMPT)) or list(_over_unloaded(pairs, 0))
        figures = {
            "reactive_p95_ttft_ms": 1e3 * first["agentrt"],
            **{
                f"reactive_p95_ttft_ratio_vs_{name}": theirs / first["agentrt"]
                for name, theirs in first.items()
                if name != "agentrt"
            },
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

    def _table(self, runs: dict[str, _Rounds]) -> Table:
        rows: list[tuple[Cell, ...]] = []
        for name, rounds in runs.items():
            alone, mixed, backlog = zip(*rounds, strict=True)
            quiet = [s.first_s for run in alone for s in run.served]
            busy = _reactive(rounds)
            pace = [s.token_s for run in mixed for s in run.served if s.arrival.reactive]
            tokens = [sum(s.prompt_tokens + s.arrival.answer_tokens for s in run.served) for run in backlog]
            rows.append(
                (
                    name,
                    self._engines[name].computes,
                    *(1e3 * _quantile(quiet, q) for q in (0.5, 0.95)),
                    *(1e3 * _quantile(busy, q) for q in (0.5, 0.95)),
                    1e3 * statistics.median(pace),
                    statistics.median(
                        each / run.elapsed_s for each, run in zip(tokens, backlog, strict=True)
                    ),
                )
            )
        return Table(
            title=f"{self._name}: a user beside proactive work at {LOAD:.0%} load",
            columns=(
                *("engine", "computes in", "alone TTFT p50 ms", "p95", "beside TTFT p50 ms", "p95"),
                *("beside ms a token", "proactive only, tokens/s"),
            ),
            rows=tuple(rows),
        )

    def _waits(self, runs: Sequence[tuple[float, str, Run]]) -> Table:
        """Time to the first token by the background's load and by the length of the question."""
        found: dict[tuple[float, int, str], list[float]] = {}
        for share, name, run in runs:
            for one in run.served:
                if one.arrival.reactive:
                    length = bisect_right(LENGTHS, one.prompt_tokens)
                    found.setdefault((share, length, name), []).append(one.first_s)
        bounds = (0, *LENGTHS)
        rows: list[tuple[Cell, ...]] = [
            (
                f"{share:.0%}",
                f"from {bounds[length]} tokens",
                name,
                len(times),
                *(1e3 * _quantile(times, share_of) for share_of in (0.5, 0.95)),
            )
            for (share, length, name), times in sorted(found.items())
        ]
        return Table(
            title=f"{self._name}: time to the first token by background load and length of the question",
            columns=("background", "question", "engine", "questions", "p50 ms", "p95 ms"),
            rows=tuple(rows),
        )


def _one_by_one(engine: Side | Peer, users: Sequence[Arrival]) -> Run:
    """Run the user's questions on an idle engine, without think time."""
    runs = [engine.serve([replace(user, at_s=0.0)]) for user in users]
    return Run(tuple(run.served[0] for run in runs), sum(run.elapsed_s for run in runs))


def _reactive(rounds: _Rounds) -> list[float]:
    return [served.first_s for _, mixed, _ in rounds for served in mixed.served if served.arrival.reactive]


def _matched(pairs: Sequence[tuple[Run, Run]]) -> Iterator[tuple[Served, Served]]:
    """Pair each of the user's requests alone with the same one beside the background."""
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
