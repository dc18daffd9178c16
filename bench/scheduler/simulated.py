"""The simulated part of the scheduler bench: Figures 6 and 7 of Agent.xpu, and the cost of a decision."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentrt.runtime.engine.simulation import Simulation
    from agentrt.runtime.engine.trace import Trace

from .load import Lengths

_OURS: Final = ("core-ultra-5-125h", "agent-xpu")
_BASELINE: Final = ("core-ultra-5-125h-cpu", "fcfs")
SYSTEMS: Final = {
    "agentrt on NPU and GPU": _OURS,
    "batching on the CPU": _BASELINE,
    "batching on NPU and GPU": ("core-ultra-5-125h", "fcfs"),
}
"""What is compared: a machine and a policy. The second stands for llama.cpp, as the paper's baseline does."""

_SUSTAINED: Final = 2.0


@dataclass(frozen=True, slots=True)
class Point:
    """One simulated run. Normalized latency: time to the first token by prompt length (§8.1), in ms."""

    system: str
    workload: str
    rate: float
    """Proactive requests a second."""
    interval_s: float | None
    """Mean think time of the user; None without one."""
    reactive_ms: float | None
    proactive_ms: float | None


def figure4() -> dict[str, Trace]:
    """Simulate a background request preempted in its prefill, under each policy of Fig. 4."""
    from agentrt.priority import Priority
    from agentrt.runtime.engine.simulation import SimulatedRequest

    traces = {}
    for policy in ("preempt-restart", "time-share", "iteration-level", "agent-xpu"):
        simulation = _simulation((_OURS[0], policy))
        simulation.submit(SimulatedRequest(1024, 8, Priority.PROACTIVE), 0.0)
        simulation.submit(SimulatedRequest(300, 8, Priority.REACTIVE), 0.7)
        simulation.run()
        traces[policy] = simulation.trace
    return traces


def figure6(lengths: Lengths, rates: Sequence[float], requests: int) -> list[Point]:
    """Proactive work only: normalized latency by request rate, for each kind of work."""
    return [
        _point(system, kind, pairs, (), rate, None, requests)
        for kind, pairs in lengths.proactive.items()
        for system in SYSTEMS
        for rate in rates
    ]


def figure7(
    lengths: Lengths, rates: Sequence[float], intervals: Sequence[float], requests: int
) -> list[Point]:
    """Both together: normalized latencies by proactive rate, for each think time of the user."""
    return [
        _point(system, "mixed", lengths.any_proactive(), lengths.reactive, rate, interval, requests)
        for interval in intervals
        for system in SYSTEMS
        for rate in rates
    ]


def latency_ratios(points: Sequence[Point], ours: str, other: str) -> Iterator[float]:
    """Reactive normalized latency under ``other`` divided by that under ``ours``, at each common point."""
    known = {(point.system, point.interval_s, point.rate): point.reactive_ms for point in points}
    for (system, interval, rate), own in known.items():
        theirs = known.get((other, interval, rate))
        if system == ours and own and theirs:
            yield theirs / own


def sustained_ratio(points: Sequence[Point], ours: str, other: str, workload: str) -> float:
    """Highest sustained rate of ``ours`` divided by that of ``other``; 0 without a common point.

    A rate is sustained while the latency is at most :data:`_SUSTAINED` times that of ``other`` at its lowest.
    """
    latency = {
        (point.system, point.rate): point.proactive_ms for point in points if point.workload == workload
    }
    calm = min((ms for (system, _), ms in latency.items() if system == other and ms), default=0.0)

    def sustained(wanted: str) -> float:
        return max(
            (
                rate
                for (system, rate), ms in latency.items()
                if system == wanted and ms and ms <= _SUSTAINED * calm
            ),
            default=0.0,
        )

    return sustained(ours) / sustained(other) if calm else 0.0


def decision_us(waiting: int, decisions: int) -> float:
    """Return the median microseconds of a scheduling decision with ``waiting`` requests queued."""
    from agentrt.priority import Priority
    from agentrt.runtime.engine.simulation import SimulatedRequest

    simulation = _simulation(_OURS)
    rng = random.Random(5)
    for _ in range(waiting):
        simulation.submit(SimulatedRequest(rng.randint(30, 900), 40, rng.choice(list(Priority))))
    took: list[float] = []
    schedule = simulation.scheduler.schedule

    def timed(now: float) -> object:
        begun = time.perf_counter()
        decisions = schedule(now)
        took.append(time.perf_counter() - begun)
        return decisions

    simulation.scheduler.schedule = timed  # type: ignore[method-assign, assignment]
    simulation.run(until=0.0)
    took.clear()
    while len(took) < decisions and simulation.clock.advance():
        pass
    return 1e6 * statistics.median(took)


def _simulation(system: tuple[str, str]) -> Simulation:
    from agentrt.runtime.engine.simulation import Simulation
    from agentrt.runtime.scheduler.policy import POLICIES
    from agentrt.runtime.xpu.simulated import simulate

    machine, policy = system
    platform, graph = simulate(f"simulated:{machine}", max_chunk_tokens=256, quantum_s=0.025)
    return Simulation(platform, graph, POLICIES[policy], blocks=8192, max_batch_size=8)


def _point(
    system: str,
    workload: str,
    proactive: Sequence[tuple[int, int]],
    reactive: Sequence[tuple[int, int]],
    rate: float,
    interval: float | None,
    requests: int,
) -> Point:
    from agentrt.priority import Priority
    from agentrt.runtime.engine.simulation import SimulatedOutput, SimulatedRequest

    simulation = _simulation(SYSTEMS[system])
    rng = random.Random(11)
    now = 0.0
    for _ in range(requests):
        now += rng.expovariate(rate)
        simulation.submit(SimulatedRequest(*rng.choice(proactive), Priority.PROACTIVE), now)
    user = random.Random(12)
    last = now

    def ask(answer: SimulatedOutput | None = None) -> None:
        assert interval is not None
        at = simulation.clock.now + user.expovariate(1 / interval)
        if at < last:
            simulation.submit(SimulatedRequest(*user.choice(reactive), Priority.REACTIVE), at, ask)

    if interval is not None:
        ask()
    simulation.run()

    def mean(priority: Priority) -> float | None:
        times = [a.normalized_latency_s for a in simulation.outputs if a.request.priority is priority]
        return 1e3 * statistics.mean(times) if times else None

    return Point(system, workload, rate, interval, mean(Priority.REACTIVE), mean(Priority.PROACTIVE))
