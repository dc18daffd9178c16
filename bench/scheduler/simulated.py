"""Simulated machines: runs under load, the highest rates, Agent.xpu's Figure 4, waits, decision times."""

from __future__ import annotations

import gc
import random
import statistics
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .load import LengthPairs

if TYPE_CHECKING:
    from agentrt.bench.simulation.simulation import Simulation
    from agentrt.runtime.engine.trace import TracedKernel
    from agentrt.runtime.heg.kernel import Role
    from agentrt.runtime.scheduler.launch_decision import ScheduledKernel

OURS: Final = "agentrt on NPU and GPU"
SAME_XPUS: Final = "order of arrival on NPU and GPU"
GPU_ALONE: Final = "batching on the GPU"
CPU: Final = "batching on the CPU"
_MACHINE: Final = "core-ultra-5-125h"

SYSTEMS: Final = {
    OURS: (_MACHINE, "agent-xpu", False),
    SAME_XPUS: (_MACHINE, "fcfs-disaggregated", False),
    GPU_ALONE: (_MACHINE, "fcfs", True),
    CPU: (f"{_MACHINE}-cpu", "fcfs", True),
}
"""What is compared: a machine, a policy, and whether the NPU is left out. The second differs from the first
in nothing but priorities. The last stands for llama.cpp, the paper's baseline."""

RATES: Final = tuple(0.02 * 1.05**step for step in range(140))
"""Requests a second among which the highest rates are looked for, 5 % apart."""
_FIRST_TRIED: Final = 45
_IDLE_RATE: Final = 1e-4
"""Requests a second that never meet each other."""
_SUSTAINED: Final = 2.0
"""A rate is sustained while the mean latency is at most this many times that of requests without others."""

WAIT_LENGTHS: Final = (
    *(1, 8, 32, 64, 96, 100, 127, 128, 129, 160, 192, 224, 240, 255, 256, 257, 288, 320, 384, 448),
    *(496, 512, 600, 640, 768, 900, 1024, 1100, 1280, 1500, 1792, 2047, 2048),
)
"""Background prompt tokens: around the sizes of blocks and static chunks, and between."""
FEW_WAIT_LENGTHS: Final = (1, 32, 64, 160, 240, 255, 256, 257, 496, 512, 1100, 2048)
_WAIT_PROMPTS: Final = 4
"""Background prompts that arrive together."""
_WAIT_ANSWER: Final = 6
_QUESTIONS: Final = (60, 300)
"""Prompt tokens of questions: one that the GPU computes alone, and one with a chunk for the NPU."""


@dataclass(frozen=True, slots=True)
class Load:
    """The requests of one run."""

    proactive: LengthPairs
    rate: float
    """Proactive requests a second (Poisson)."""
    seconds: float
    """Requests arrive for so long; all are answered."""
    reactive: LengthPairs = ()
    interval_s: float | None = None
    """Mean think time of the user between an answer and the next question (exponential); None: no user."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """Results of one run. Normalized latency: time to the first token by prompt length (§8.1), in ms.

    In the order in which the requests arrived.
    """

    reactive_ms: tuple[float, ...]
    proactive_ms: tuple[float, ...]
    overlap: float | None
    """Share of the NPU's busy time in which the GPU decodes; None if the NPU does nothing."""
    joules_per_token: float
    """Energy of all kernels by the tokens of prompts and answers (§8.1), above that of an idle machine."""
    peak_watts: float
    """Most power that kernels take at once."""


def simulation(machine: str, policy: str, one_xpu: bool = False) -> Simulation:
    """Return an empty simulation of a machine under a policy, as in :data:`SYSTEMS`."""
    from agentrt.bench.simulation.platform import simulate
    from agentrt.bench.simulation.simulation import Simulation
    from agentrt.runtime.engine.trace import Trace
    from agentrt.runtime.scheduler.policy import POLICIES

    platform, graph = simulate(f"simulated:{machine}", max_chunk_tokens=256, quantum_s=0.025, one_xpu=one_xpu)
    found = Simulation(platform, graph, POLICIES[policy], blocks=8192, max_batch_size=8)
    found.trace = Trace(limit=10_000_000)
    return found


def run_load(system: str, load: Load, seed: int) -> SimulatedRun:
    """Run ``load`` on ``system``. All systems get the same requests for the same ``seed``."""
    from agentrt.bench.simulation.simulation import SimulatedOutput, SimulatedRequest
    from agentrt.priority import Priority

    simulated = simulation(*SYSTEMS[system])
    rng = random.Random(f"background {seed}")
    now = rng.expovariate(load.rate)
    while now < load.seconds:
        simulated.submit(SimulatedRequest(*rng.choice(load.proactive), Priority.PROACTIVE), now)
        now += rng.expovariate(load.rate)
    user = random.Random(f"user {seed}")

    def ask(answer: SimulatedOutput | None = None) -> None:
        assert load.interval_s is not None
        at = simulated.clock.now + user.expovariate(1 / load.interval_s)
        if at < load.seconds:
            simulated.submit(SimulatedRequest(*user.choice(load.reactive), Priority.REACTIVE), at, ask)

    if load.interval_s is not None:
        ask()
    simulated.run()

    def latencies(priority: Priority) -> tuple[float, ...]:
        outputs = sorted(simulated.outputs, key=lambda output: output.arrived)
        return tuple(1e3 * each.normalized_latency_s for each in outputs if each.request.priority is priority)

    tokens = sum(each.request.prompt_tokens + each.request.answer_tokens for each in simulated.outputs)
    joules, peak_watts = energy(simulated.trace.kernels, simulated.watts)
    return SimulatedRun(
        latencies(Priority.REACTIVE),
        latencies(Priority.PROACTIVE),
        overlap_fraction(simulated.trace.kernels),
        joules / tokens if tokens else 0.0,
        peak_watts,
    )


def energy(kernels: Iterable[TracedKernel], watts: Mapping[Role, float]) -> tuple[float, float]:
    """Return the joules of ``kernels``, and the most watts of those that run at once.

    ``watts`` are those of an XPU that runs a kernel.
    """
    joules = power = peak = 0.0
    changes = []
    for kernel in kernels:
        joules += watts[kernel.role] * (kernel.ended - kernel.started)
        changes += [(kernel.started, watts[kernel.role]), (kernel.ended, -watts[kernel.role])]
    for _, change in sorted(changes):  # at one time the ends come first
        power += change
        peak = max(peak, power)
    return joules, peak


@dataclass(frozen=True, slots=True)
class HighestRates:
    """The highest rates (requests a second) that the systems sustain, all with the same requests."""

    limit_ms: float
    """The latency that is allowed, the same for all."""
    rates: dict[str, float]
    """By system; without those that sustain none of :data:`RATES`, or all."""
    overlap: float | None
    """:attr:`SimulatedRun.overlap` of our system at its highest rate."""


def find_highest_rates(proactive: LengthPairs, requests: int, seed: int) -> HighestRates:
    """Find what each system sustains of about ``requests`` proactive requests.

    The latency is the mean over the second half of the requests, when queues have formed.
    """

    def run_at(system: str, rate: float) -> SimulatedRun:
        return run_load(system, Load(proactive, rate, requests / rate), seed)

    def latency_ms(run: SimulatedRun) -> float:
        return statistics.fmean(run.proactive_ms[len(run.proactive_ms) // 2 :])

    limit = _SUSTAINED * latency_ms(run_at(OURS, _IDLE_RATE))
    rates, overlap, near = {}, None, _FIRST_TRIED
    for system in SYSTEMS:
        runs: dict[int, SimulatedRun] = {}

        def sustains(place: int, system: str = system, runs: dict[int, SimulatedRun] = runs) -> bool:
            runs[place] = run_at(system, RATES[place])
            return latency_ms(runs[place]) <= limit

        highest = last_place(sustains, len(RATES), near)
        if highest in runs and highest < len(RATES) - 1:
            rates[system] = RATES[highest]
            if system == OURS:
                overlap, near = runs[highest].overlap, highest
    return HighestRates(limit, rates, overlap)


def last_place(holds: Callable[[int], bool], places: int, near: int) -> int:
    """Return the last of ``places`` for which ``holds``, -1 if there is none; ``near`` is tried first.

    ``holds`` is true up to some place and false from there on; it is called about 2 log2 times of how far
    that is from ``near``.
    """
    low, high, at, step = -1, places, near, 1
    while high - low > 1:
        at = min(max(at, low + 1), high - 1)
        if holds(at):
            low = at
        else:
            high = at
        if low >= 0 and high < places:
            at = (low + high) // 2
        else:
            at += step if low >= 0 else -step
            step *= 2
    return low


def overlap_fraction(kernels: Iterable[TracedKernel]) -> float | None:
    """Return the share of the PREFILL XPU's busy time in which the DECODE XPU runs a decode kernel."""
    from agentrt.runtime.heg.kernel import Role

    kernels = list(kernels)
    prefills = [kernel for kernel in kernels if kernel.role is Role.PREFILL]
    decodes = sorted(
        (kernel.started, kernel.ended)
        for kernel in kernels
        if kernel.role is Role.DECODE and kernel.stage == "decode"
    )
    starts = [started for started, _ in decodes]
    both = 0.0
    for kernel in prefills:
        at = max(0, bisect_right(starts, kernel.started) - 1)
        while at < len(decodes) and decodes[at][0] < kernel.ended:
            both += max(0.0, min(kernel.ended, decodes[at][1]) - max(kernel.started, decodes[at][0]))
            at += 1
    busy = sum(kernel.ended - kernel.started for kernel in prefills)
    return both / busy if busy else None


def figure4() -> dict[str, Simulation]:
    """Simulate a background request preempted in its prefill, under each policy of Fig. 4, to the end."""
    from agentrt.bench.simulation.simulation import SimulatedRequest
    from agentrt.priority import Priority

    found = {}
    for policy in ("preempt-restart", "time-share", "iteration-level", "agent-xpu"):
        simulated = simulation(_MACHINE, policy)
        simulated.submit(SimulatedRequest(1024, 8, Priority.PROACTIVE), 0.0)
        simulated.submit(SimulatedRequest(300, 8, Priority.REACTIVE), 0.7)
        simulated.run()
        found[policy] = simulated
    return found


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of questions for their first kernel beside background prompts of one length."""

    seconds: tuple[float, ...]
    """For each arrival of a question."""
    longest_kernel_s: float
    """Of the background."""


def measure_waits(tokens: int, arrivals: int) -> Waits:
    """Let a question arrive at ``arrivals`` times, evenly spread over all that the background does."""
    alone = _background(tokens)
    alone.run()
    total = alone.clock.now
    waits = tuple(
        _wait(tokens, total * (number + 0.5) / arrivals, _QUESTIONS[number % len(_QUESTIONS)])
        for number in range(arrivals)
    )
    longest = max(kernel.ended - kernel.started for kernel in alone.trace.kernels)
    return Waits(waits, longest)


def _background(tokens: int) -> Simulation:
    """Return a simulation in which background prompts of one length arrive together."""
    from agentrt.bench.simulation.simulation import SimulatedRequest
    from agentrt.priority import Priority

    simulated = simulation(*SYSTEMS[OURS])
    for _ in range(_WAIT_PROMPTS):
        simulated.submit(SimulatedRequest(tokens, _WAIT_ANSWER, Priority.PROACTIVE), 0.0)
    return simulated


def _wait(tokens: int, at: float, question: int) -> float:
    """Return the seconds that a question which arrives at ``at`` waits for its first kernel."""
    from agentrt.bench.simulation.simulation import SimulatedRequest
    from agentrt.priority import Priority

    simulated = _background(tokens)
    simulated.submit(SimulatedRequest(question, 1, Priority.REACTIVE), at)
    simulated.run(until=at)
    while not (kernels := [kernel for kernel in simulated.trace.kernels if kernel.reactive]):
        simulated.clock.advance()
    return kernels[0].started - at


def decision_us(waiting: int, seconds: float) -> list[float]:
    """Return the microseconds of CPU of each scheduling decision after ``waiting`` requests came at once.

    They are of ``seconds`` on the virtual clock, in which all of them are promoted for their age. Without
    collections of garbage, most of which is the simulation's.
    """
    from agentrt.bench.simulation.simulation import SimulatedRequest
    from agentrt.priority import Priority

    simulated = simulation(*SYSTEMS[OURS])
    rng = random.Random(5)
    for _ in range(waiting):
        simulated.submit(SimulatedRequest(rng.randint(30, 900), 40, rng.choice(list(Priority))))
    took: list[float] = []
    schedule = simulated.scheduler.schedule

    def timed(now: float) -> list[ScheduledKernel]:
        begun = time.thread_time_ns()
        scheduled = schedule(now)
        took.append((time.thread_time_ns() - begun) / 1e3)
        return scheduled

    simulated.scheduler.schedule = timed  # type: ignore[method-assign, assignment]
    gc.disable()
    try:
        simulated.run(until=0.0)
        took.clear()
        simulated.run(until=seconds)
    finally:
        gc.enable()
    return took
