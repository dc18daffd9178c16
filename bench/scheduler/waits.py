"""How long a question waits for its first kernel beside background prompts of every length, simulated."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ..common.report import Table
from .simulated import OURS, simulation

LENGTHS: Final = (
    *(1, 8, 32, 64, 96, 100, 127, 128, 129, 160, 192, 224, 240, 255, 256, 257, 288, 320, 384, 448),
    *(496, 512, 600, 640, 768, 900, 1024, 1100, 1280, 1500, 1792, 2047, 2048),
)
"""Background prompt tokens: around the sizes of blocks and static chunks, and between."""
FEW_LENGTHS: Final = (1, 32, 64, 160, 240, 255, 256, 257, 496, 512, 1100, 2048)

_PROMPTS: Final = 4
"""Background prompts that arrive together."""
_ANSWER: Final = 6
_QUESTIONS: Final = (60, 300)
"""Prompt tokens of questions: one that the GPU computes alone, and one with a chunk for the NPU."""

WAITS_METHOD: Final = (
    "Waits: until a question's first kernel, at arrivals spread over all that four background prompts of one "
    "length do, prefill and decode; the longest kernel is the background's. "
)


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits beside background prompts of one length."""

    prompt_tokens: int
    seconds: tuple[float, ...]
    """For each arrival of a question."""
    longest_kernel_s: float
    """Of the background."""


def measure_waits(lengths: Iterable[int], arrivals: int) -> Iterator[Waits]:
    """Let a question arrive at ``arrivals`` times, evenly spread over all that the background does."""
    for tokens in lengths:
        total, longest = _background(tokens)
        times = [total * (number + 0.5) / arrivals for number in range(arrivals)]
        waits = tuple(
            _wait(tokens, at, _QUESTIONS[number % len(_QUESTIONS)]) for number, at in enumerate(times)
        )
        yield Waits(tokens, waits, longest)


def _background(tokens: int) -> tuple[float, float]:
    """Return how long the background takes alone, and its longest kernel, in seconds."""
    from agentrt.bench.simulation.simulation import SimulatedRequest
    from agentrt.priority import Priority

    simulated = simulation(OURS)
    for _ in range(_PROMPTS):
        simulated.submit(SimulatedRequest(tokens, _ANSWER, Priority.PROACTIVE), 0.0)
    simulated.run()
    return simulated.clock.now, max(kernel.ended - kernel.started for kernel in simulated.trace.kernels)


def _wait(tokens: int, at: float, question: int) -> float:
    """Return the seconds that a question which arrives at ``at`` waits for its first kernel."""
    from agentrt.bench.simulation.simulation import SimulatedRequest
    from agentrt.priority import Priority

    simulated = simulation(OURS)
    for _ in range(_PROMPTS):
        simulated.submit(SimulatedRequest(tokens, _ANSWER, Priority.PROACTIVE), 0.0)
    simulated.submit(SimulatedRequest(question, 1, Priority.REACTIVE), at)
    simulated.run(until=at)
    while not (kernels := [kernel for kernel in simulated.trace.kernels if kernel.reactive]):
        simulated.clock.advance()
    return kernels[0].started - at


def waits_table(found: Iterable[Waits]) -> Table:
    """Return the waits by length of the background prompts, in milliseconds."""
    return Table(
        title="Simulated: a question's wait for its first kernel, by length of the background prompts",
        columns=("background tokens", "arrivals", "wait ms p50", "max", "longest background kernel ms"),
        rows=tuple(
            (
                waits.prompt_tokens,
                len(waits.seconds),
                1e3 * statistics.median(waits.seconds),
                1e3 * max(waits.seconds),
                1e3 * waits.longest_kernel_s,
            )
            for waits in found
        ),
    )
