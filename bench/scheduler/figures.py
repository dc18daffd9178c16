"""Figures 6 and 7 of Agent.xpu on simulated machines: the highest rates, and a user's latency by load."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..common.estimates import Estimate, bootstrap, exact, mean, median
from ..common.report import Cell, Table
from .load import HELD_BACK, Lengths
from .simulated import (
    CPU,
    GPU_ALONE,
    OURS,
    SAME_XPUS,
    SYSTEMS,
    HighestRates,
    Load,
    SimulatedRun,
    figure4,
    find_highest_rates,
    run_load,
)

T = TypeVar("T")

_ANSWER_S: Final = 12.0
"""About how long the user of Fig. 7 waits for an answer; decides how long a run takes."""
_NAMED: Final = {SAME_XPUS: "_same_machine", GPU_ALONE: "_gpu_alone", CPU: "_cpu"}
"""What the figures compare us with, and the endings of their names."""

RATE_COLUMNS: Final = ("sets", "work", "system", "requests/s", "ours by its", "ms a token allowed")
POINT_COLUMNS: Final = (
    *("load", "system", "proactive requests/s", "reactive answers"),
    *("reactive ms a token p50", "reactive mean", "proactive ms a token p50", "proactive mean"),
    *("NPU time beside GPU decode", "J a token", "peak W"),
)
RATIO_COLUMNS: Final = (
    "sets",
    "proactive requests/s",
    "system",
    "reactive p50",
    "reactive mean",
    "proactive p50",
    "J a token",
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Amount of work: the loads of the figures; each is run once with each seed."""

    seeds: Sequence[int]
    rate_requests: int
    """Proactive requests of a run of Fig. 6, about so many."""
    rates: tuple[float, ...]
    """Proactive requests a second of Fig. 7, and its think times:"""
    intervals: tuple[float, ...]
    proactive: int
    """Proactive requests of a run of Fig. 7, at least about so many, and reactive answers:"""
    answers: int


@dataclass(frozen=True, slots=True)
class Found:
    """The highest rates with one kind of work, one for each seed."""

    sets: str
    work: str
    by_seed: tuple[HighestRates, ...]

    def ratios(self, other: str) -> list[float]:
        """Our rate by that of ``other`` with each seed; empty if one was not found."""
        rates = [each.rates for each in self.by_seed]
        found = all(OURS in each and other in each for each in rates)
        return [each[OURS] / each[other] for each in rates] if found else []


@dataclass(frozen=True, slots=True)
class Point:
    """All runs of one system under one load of Fig. 7, one for each seed."""

    sets: str
    system: str
    rate: float
    interval_s: float
    runs: tuple[SimulatedRun, ...]

    def row(self) -> tuple[Cell, ...]:
        overlaps = [run.overlap for run in self.runs if run.overlap is not None]
        return (
            f"{self.sets}, every {self.interval_s:g} s",
            self.system,
            self.rate,
            sum(len(run.reactive_ms) for run in self.runs),
            *_p50_and_mean([run.reactive_ms for run in self.runs]),
            *_p50_and_mean([run.proactive_ms for run in self.runs]),
            median(overlaps) if overlaps else None,
            mean([run.joules_per_token for run in self.runs]),
            exact(max(run.peak_watts for run in self.runs)),
        )


def _p50_and_mean(by_seed: Sequence[Sequence[float]]) -> tuple[Cell, Cell]:
    """Median and mean of all values; the intervals are over the seeds."""
    measured = [values for values in by_seed if values]
    if not measured:
        return (None, None)
    return (
        bootstrap(measured, lambda drawn: statistics.median(_joined(drawn))),
        bootstrap(measured, lambda drawn: statistics.fmean(_joined(drawn))),
    )


def _joined(by_seed: Sequence[Sequence[T]]) -> list[T]:
    return [value for values in by_seed for value in values]


def figure6(
    lengths: Mapping[str, Lengths],
    sweep: Sweep,
    executor: Executor,
    progress: Callable[[str], None],
) -> list[Found]:
    """Find the highest rates of proactive work only, for each kind of work."""
    kinds = [(sets, work) for sets, each in lengths.items() for work in each.proactive]
    tasks = [
        (lengths[sets].proactive[work], sweep.rate_requests, seed)
        for sets, work in kinds
        for seed in sweep.seeds
    ]
    found = _map(
        executor,
        find_highest_rates,
        tasks,
        lambda done: progress(f"simulated Core Ultra: highest rates, {done}"),
    )
    return [Found(*kind, by_seed) for kind, by_seed in zip(kinds, _chunks(found, sweep.seeds), strict=True)]


def figure7(
    lengths: Mapping[str, Lengths], sweep: Sweep, executor: Executor, progress: Callable[[str], None]
) -> list[Point]:
    """Run proactive work and a user, for each think time of the user."""
    loads = []
    for sets, each in lengths.items():
        for interval in sweep.intervals:
            for rate in sweep.rates:
                seconds = max(sweep.proactive / rate, sweep.answers * (interval + _ANSWER_S))
                loads.append((sets, Load(each.any_proactive(), rate, seconds, each.reactive, interval)))
    wanted = [(sets, load, system) for sets, load in loads for system in SYSTEMS]
    tasks = [(system, load, seed) for _, load, system in wanted for seed in sweep.seeds]
    runs = _map(executor, run_load, tasks, lambda done: progress(f"simulated Core Ultra: a user, {done}"))
    return [
        Point(sets, system, load.rate, load.interval_s or 0.0, of_seeds)
        for (sets, load, system), of_seeds in zip(wanted, _chunks(runs, sweep.seeds), strict=True)
    ]


def _map(
    executor: Executor,
    work: Callable[..., T],
    tasks: Sequence[tuple[Any, ...]],
    progress: Callable[[str], None],
) -> list[T]:
    """Return the results of ``work`` in the order of ``tasks``, its arguments."""
    done: list[T] = []
    for result in executor.map(work, *zip(*tasks, strict=True)):
        done.append(result)
        progress(f"{len(done)} of {len(tasks)}")
    return done


def _chunks(results: Sequence[T], seeds: Sequence[int]) -> Iterator[tuple[T, ...]]:
    for start in range(0, len(results), len(seeds)):
        yield tuple(results[start : start + len(seeds)])


def figure4_table(title: str) -> Table:
    """Return how long Fig. 4's question and all of its work take under each scheme, in seconds."""
    from agentrt.priority import Priority

    rows = []
    for policy, simulated in figure4().items():
        (answer,) = (each for each in simulated.outputs if each.request.priority is Priority.REACTIVE)
        rows.append((policy, exact(answer.ended - answer.arrived), exact(simulated.clock.now)))
    return Table(title=title, columns=("scheme", "answer s", "all s"), rows=tuple(rows))


def rates_table(title: str, found: Sequence[Found]) -> Table:
    """Return a row for each kind of work and system; empty where a system reaches the latency at no rate."""
    rows: list[tuple[Cell, ...]] = []
    for each in found:
        limit = mean([one.limit_ms for one in each.by_seed])
        for system in SYSTEMS:
            rates = [one.rates[system] for one in each.by_seed if system in one.rates]
            rate = median(rates) if len(rates) == len(each.by_seed) else None
            ratios = each.ratios(system) if system != OURS else []
            ratio = median(ratios) if ratios else None
            rows.append((each.sets, each.work, system, rate, ratio, limit))
    return Table(title=title, columns=RATE_COLUMNS, rows=tuple(rows))


def points_table(title: str, points: Sequence[Point]) -> Table:
    """Return a row for each point; the first column has the sets and the user's think time."""
    return Table(title=title, columns=POINT_COLUMNS, rows=tuple(point.row() for point in points))


def ratios_table(title: str, points: Sequence[Point]) -> Table:
    """Return the latencies of the other systems by ours, for each rate of Fig. 7: a row for each system."""
    loads = dict.fromkeys((point.sets, point.rate) for point in points)
    rows: list[tuple[Cell, ...]] = []
    for sets, rate in loads:
        at_rate = [point for point in points if (point.sets, point.rate) == (sets, rate)]
        for other in (SAME_XPUS, GPU_ALONE, CPU):
            rows.append(
                (
                    *(sets, rate, other),
                    latency_ratio(at_rate, other, "reactive_ms", statistics.median),
                    latency_ratio(at_rate, other, "reactive_ms", statistics.fmean),
                    latency_ratio(at_rate, other, "proactive_ms", statistics.median),
                    _energy_ratio(at_rate, other),
                )
            )
    return Table(title=title, columns=RATIO_COLUMNS, rows=tuple(rows))


def _energy_ratio(points: Sequence[Point], other: str) -> Estimate:
    """Return the joules a token of ``other`` by ours, with each seed."""
    ours, theirs = (
        [[run.joules_per_token for run in point.runs] for point in points if point.system == system]
        for system in (OURS, other)
    )
    return median([their / own for own, their in zip(_joined(ours), _joined(theirs), strict=True)])


def latency_ratio(
    points: Sequence[Point], other: str, kind: str, statistic: Callable[[Sequence[float]], float]
) -> Estimate | None:
    """Return latency under ``other`` by ours: the geometric mean over the users' think times.

    ``kind`` names the latencies of :class:`SimulatedRun`. With each seed both sides get the same requests, so
    that both are drawn at once; of a user's questions those count that both were asked, as a user who waits
    longer asks less. None if a run has no such request.
    """
    ours, theirs = (
        [[getattr(run, kind) for run in point.runs] for point in points if point.system == system]
        for system in (OURS, other)
    )
    # For each seed and think time the latencies of the same requests, theirs and ours.
    by_seed = [
        [list(zip(*each, strict=False)) for each in zip(their, own, strict=True)]
        for their, own in zip(zip(*theirs, strict=True), zip(*ours, strict=True), strict=True)
    ]
    if not by_seed or not all(pairs for of_seed in by_seed for pairs in of_seed):
        return None

    def ratio(drawn: Sequence[Sequence[Sequence[tuple[float, float]]]]) -> float:
        by_interval = [zip(*_joined(pairs), strict=True) for pairs in zip(*drawn, strict=True)]
        return statistics.geometric_mean(statistic(their) / statistic(own) for their, own in by_interval)

    return bootstrap(by_seed, ratio)


def figures_of(found: Sequence[Found], points: Sequence[Point], sweep: Sweep) -> dict[str, Estimate]:
    """Return the named figures of both sweeps; what could not be measured is left out."""
    figures: dict[str, Estimate] = {}
    for sets in dict.fromkeys(each.sets for each in found):
        ending = "_held_back" if sets == HELD_BACK else ""
        own = [each for each in found if each.sets == sets]
        for other, name in _NAMED.items():
            ratios = [each.ratios(other) for each in own]
            if all(ratios):
                by_seed = list(zip(*ratios, strict=True))
                figures[f"sim_proactive_rate_ratio{name}{ending}"] = bootstrap(
                    by_seed, lambda drawn: statistics.geometric_mean(_joined(drawn))
                )
        overlaps = [[one.overlap for one in each.by_seed] for each in own]
        of_seeds = [[each for each in of_seed if each is not None] for of_seed in zip(*overlaps, strict=True)]
        if all(of_seeds):
            figures[f"sim_overlap_fraction{ending}"] = bootstrap(
                of_seeds, lambda drawn: statistics.median(_joined(drawn))
            )
        for rate, load in ((sweep.rates[0], "light"), (sweep.rates[-1], "saturated")):
            at_rate = [point for point in points if (point.sets, point.rate) == (sets, rate)]
            for other, name in _NAMED.items():
                ratio = latency_ratio(at_rate, other, "reactive_ms", statistics.median)
                if ratio is not None:
                    figures[f"sim_reactive_latency_ratio{name}_{load}{ending}"] = ratio
    return figures
