"""Figures 6 and 7 of Agent.xpu on simulated machines: normalized latency by load, over several seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..common.report import Cell, Table
from .load import Lengths
from .simulated import CPU, GPU_ALONE, OURS, SAME_XPUS, SYSTEMS, Load, SimulatedRun, run_load

_SUSTAINED: Final = 2.0
"""A rate is sustained while the latency is at most this many times the baseline's at its lowest rate."""
_STEADY: Final = 1.25
"""Reactive latency is unsaturated while it is at most this many times that at the lowest rate."""
_BUSY: Final = 0.95
"""A machine is saturated when its busiest XPU is busy for a larger share of the time."""
_ANSWER_S: Final = 12.0
"""About how long the user of Fig. 7 waits for an answer; decides how long a run takes."""

POINT_COLUMNS: Final = (
    *("system", "proactive requests/s", "reactive answers", "reactive ms a token p50", "mean"),
    *("lowest seed p50", "highest", "proactive ms a token p50", "mean", "lowest seed p50", "highest"),
    *("NPU time beside GPU decode", "busiest XPU"),
)
"""Columns of both figures' tables behind the first. Each seed's median is a spread's lowest or highest."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Amount of work: the loads of the figures, and how often each is run."""

    rates: tuple[float, ...]
    intervals: tuple[float, ...]
    seeds: Sequence[int]
    proactive: int
    """Proactive requests in one run, at least about so many."""
    answers: int
    """Reactive answers at one point, all seeds together, at least about so many."""


@dataclass(frozen=True, slots=True)
class Point:
    """All runs of one system under one load, one for each seed."""

    system: str
    workload: str
    rate: float
    interval_s: float | None
    runs: tuple[SimulatedRun, ...]

    def reactive_ms(self) -> list[float]:
        return [ms for run in self.runs for ms in run.reactive_ms]

    def proactive_ms(self) -> list[float]:
        return [ms for run in self.runs for ms in run.proactive_ms]

    @property
    def overlap(self) -> float | None:
        """Median over the seeds of the NPU's time beside GPU decode."""
        found = [run.overlap for run in self.runs if run.overlap is not None]
        return statistics.median(found) if found else None

    @property
    def busiest(self) -> float:
        """Median over the seeds of the busiest XPU's share."""
        return statistics.median(run.busiest for run in self.runs)

    def row(self) -> tuple[Cell, ...]:
        return (
            self.system,
            self.rate,
            len(self.reactive_ms()),
            *_spread([run.reactive_ms for run in self.runs]),
            *_spread([run.proactive_ms for run in self.runs]),
            self.overlap,
            self.busiest,
        )


def _spread(by_seed: Sequence[Sequence[float]]) -> tuple[Cell, Cell, Cell, Cell]:
    """Median and mean of all values, and the lowest and the highest median of a seed."""
    values = [value for each in by_seed for value in each]
    medians = [statistics.median(each) for each in by_seed if each]
    if not values:
        return (None, None, None, None)
    return (statistics.median(values), statistics.mean(values), min(medians), max(medians))


def figure6(lengths: Lengths, sweep: Sweep, progress: Callable[[str], None]) -> list[Point]:
    """Proactive work only, for each kind of work."""
    points = []
    for kind, pairs in lengths.proactive.items():
        for rate in sweep.rates:
            progress(f"simulated Core Ultra: {kind}, {rate:g} requests/s")
            load = Load(pairs, rate, sweep.proactive / rate)
            points += [_point(system, kind, load, sweep.seeds) for system in SYSTEMS]
    return points


def figure7(lengths: Lengths, sweep: Sweep, progress: Callable[[str], None]) -> list[Point]:
    """Proactive work and a user, for each think time of the user."""
    points = []
    for interval in sweep.intervals:
        for rate in sweep.rates:
            progress(f"simulated Core Ultra: a question every {interval:g} s, {rate:g} requests/s")
            asking = sweep.answers / len(sweep.seeds) * (interval + _ANSWER_S)
            seconds = max(sweep.proactive / rate, asking)
            load = Load(lengths.any_proactive(), rate, seconds, lengths.reactive, interval)
            points += [_point(system, "mixed", load, sweep.seeds) for system in SYSTEMS]
    return points


def _point(system: str, workload: str, load: Load, seeds: Sequence[int]) -> Point:
    runs = tuple(run_load(system, load, seed) for seed in seeds)
    return Point(system, workload, load.rate, load.interval_s, runs)


def points_table(title: str, points: Iterable[Point]) -> Table:
    """Return a row for each point; the first column is the kind of work, or the user's think time."""
    return Table(
        title=title,
        columns=("load", *POINT_COLUMNS),
        rows=tuple(
            (
                point.workload if point.interval_s is None else f"every {point.interval_s:g} s",
                *point.row(),
            )
            for point in points
        ),
    )


def find_knee(points: Sequence[Point]) -> list[Point]:
    """Return our points of Fig. 7 at the highest rate at which nothing is saturated, one per think time.

    At that rate and below, the reactive latency (median) is at most :data:`_STEADY` times that at the lowest
    rate, and the busiest XPU has time left. Empty if the machine is saturated at every rate.
    """
    own = [point for point in points if point.system == OURS and point.reactive_ms()]
    lowest = {
        interval: min((p for p in own if p.interval_s == interval), key=lambda point: point.rate)
        for interval in {point.interval_s for point in own}
    }

    def steady(point: Point) -> bool:
        calm = statistics.median(lowest[point.interval_s].reactive_ms())
        return statistics.median(point.reactive_ms()) <= _STEADY * calm and point.busiest <= _BUSY

    at_knee: list[Point] = []
    for rate in sorted({point.rate for point in own}):
        at_rate = [point for point in own if point.rate == rate]
        if not all(map(steady, at_rate)):
            break
        at_knee = at_rate
    return at_knee


def latency_ratios(points: Sequence[Point], other: str) -> Iterator[tuple[float, float]]:
    """Reactive latency under ``other`` divided by ours, at each point of Fig. 7: of medians, and of means."""
    theirs = {(p.interval_s, p.rate): p.reactive_ms() for p in points if p.system == other}
    for point in points:
        own, compared = point.reactive_ms(), theirs.get((point.interval_s, point.rate))
        if point.system == OURS and own and compared:
            yield (
                statistics.median(compared) / statistics.median(own),
                statistics.mean(compared) / statistics.mean(own),
            )


def sustained_ratio(points: Sequence[Point], other: str, workload: str) -> float:
    """Our highest sustained rate divided by that of ``other``; 0 without a common point."""
    latency = {
        (point.system, point.rate): statistics.mean(ms)
        for point in points
        if point.workload == workload and (ms := point.proactive_ms())
    }
    calm = next((ms for (system, _), ms in sorted(latency.items()) if system == other), 0.0)

    def sustained(wanted: str) -> float:
        rates = [
            rate for (system, rate), ms in latency.items() if system == wanted and ms <= _SUSTAINED * calm
        ]
        return max(rates, default=0.0)

    return sustained(OURS) / sustained(other) if calm else 0.0


def figures_of(lengths: Lengths, alone: Sequence[Point], mixed: Sequence[Point]) -> dict[str, float]:
    """Return the named figures of both sweeps; what could not be measured is left out."""
    figures: dict[str, float] = {}
    knee = find_knee(mixed)
    overlaps = [point.overlap for point in knee if point.overlap is not None]
    if overlaps:
        figures["sim_knee_requests_per_s"] = knee[0].rate
        figures["sim_overlap_fraction"] = statistics.median(overlaps)
    for other, suffix in ((CPU, ""), (SAME_XPUS, "_same_machine"), (GPU_ALONE, "_gpu_alone")):
        ratios = list(latency_ratios(mixed, other))
        if ratios:
            of_medians, of_means = zip(*ratios, strict=True)
            figures[f"sim_reactive_latency_ratio{suffix}"] = statistics.median(of_medians)
            figures[f"sim_reactive_mean_latency_ratio{suffix}"] = statistics.median(of_means)
            figures[f"sim_reactive_latency_ratio{suffix}_max"] = max(of_medians)
        rates = [ratio for kind in lengths.proactive if (ratio := sustained_ratio(alone, other, kind))]
        if rates:
            figures[f"sim_proactive_rate_ratio{suffix}"] = statistics.geometric_mean(rates)
    return figures
