"""Plans when the blocks of a model on an XPU of static shapes change graphs during prefill (sd.npu §3.2).

Each block has two graphs: one for prompt chunks (G1) and one for decoding (G2), which computes a chunk too if
it is repeated over parts of it. One block is loaded at a time, while others compute.

The greedy plan takes the last block that still has its first graph, and loads it while the next ``k`` block
runs compute: the least ``k`` whose time is not shorter than the load (Eqs. 1 and 2). A block is not computed
while it is loaded: where the ``k`` runs would reach it, the last block before that is tried. Nothing is
loaded during a run for which there is no such block. So the prefill never waits for a load.

Finding the shortest plan is NP-hard (appendix A); ``tests/runtime/heg/test_graph_switch.py`` has the worst
cases of the greedy plan among all small ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SwitchCosts:
    """Profiled seconds of each block, and how many chunks the prompt has."""

    chunks: int
    """At least 1."""
    load_s: tuple[float, ...]
    """``T_load(P_j; G2)``"""
    prefill_s: tuple[float, ...]
    """``T_compute(P_i; G1)`` of one chunk."""
    repeated_s: tuple[float, ...]
    """``T_compute(P_i; G2)``, repeated until one chunk is computed."""

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.load_s)


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """The load of one block's second graph. Times count from the start of the prefill."""

    block: int
    started_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """When each block is loaded, and with which graph it runs."""

    loads: tuple[PlannedLoad, ...]
    """All blocks, in the order of their loads."""
    repeats: tuple[tuple[bool, ...], ...]
    """``[chunks][blocks]`` whether a block runs with its second graph, repeated."""
    prefill_s: float
    """When the last block has computed the last chunk."""

    @property
    def latency_s(self) -> float:
        """When the prefill and all loads have ended."""
        return max([self.prefill_s, *(load.ended_s for load in self.loads)])

    @property
    def hidden_fraction(self) -> float:
        """Share of the time of all loads during which the prefill computes; 1 if loading takes no time."""
        return hidden_fraction(((load.started_s, load.ended_s) for load in self.loads), self.prefill_s)


def hidden_fraction(loads: Iterable[tuple[float, float]], prefill_end: float) -> float:
    """Return the share of the time of ``loads``, as starts and ends, that is over at ``prefill_end``."""
    spans = list(loads)
    total = sum(end - start for start, end in spans)
    hidden = sum(max(0.0, min(end, prefill_end) - start) for start, end in spans)
    return hidden / total if total > 0 else 1.0


def choose_load(
    pending: Collection[int], load_s: Sequence[float], upcoming: Sequence[tuple[int, float]]
) -> tuple[int, int] | None:
    """Choose the block to load next: the last of ``pending`` that is not computed while it is loaded.

    ``upcoming`` has the block and the seconds of each block run to come, in order. If they end before the
    load does, it is hidden as far as they go.

    Returns:
        The block and ``k*``, the number of block runs that hide its load; None if each pending block would be
        computed meanwhile.
    """
    for block in sorted(pending, reverse=True):
        hidden_s = 0.0
        for runs, (computed, seconds) in enumerate(upcoming, 1):
            if computed == block:
                break
            hidden_s += seconds
            if hidden_s >= load_s[block]:
                return block, runs
        else:
            return block, len(upcoming)
    return None


def greedy_plan(costs: SwitchCosts, first_chunk: int = 0) -> SwitchPlan:
    """Return the plan of sd.npu's greedy rule, which begins to load at the start of ``first_chunk``."""
    timeline = _Timeline(costs)
    timeline.run(first_chunk * costs.blocks)
    while timeline.pending and (upcoming := timeline.upcoming()):
        choice = choose_load(timeline.pending, costs.load_s, upcoming)
        if choice is None:
            timeline.run(1)
            continue
        block, runs = choice
        timeline.load(block)
        timeline.run(runs)
        timeline.pending.remove(block)
    return timeline.finish()


def synchronous_plan(costs: SwitchCosts) -> SwitchPlan:
    """Return the plan that loads every block after the prefill (Fig. 8b, 1)."""
    return greedy_plan(costs, costs.chunks)


def asynchronous_plan(costs: SwitchCosts) -> SwitchPlan:
    """Return the plan that loads each block once it has computed the last chunk (Fig. 8b, 2)."""
    timeline = _Timeline(costs)
    timeline.run((costs.chunks - 1) * costs.blocks)
    for block in range(costs.blocks):
        timeline.run(1)
        timeline.load(block)
    timeline.pending.clear()
    return timeline.finish()


def late_plan(costs: SwitchCosts) -> SwitchPlan:
    """Return the greedy plan that begins at the last chunk from which all loads are expected to be hidden.

    Up to there every block runs with the graph made for chunks.
    """
    chunks = math.ceil(switch_seconds(costs) / max(sum(costs.prefill_s), math.ulp(1.0)))
    return greedy_plan(costs, max(0, costs.chunks - chunks))


def switch_seconds(costs: SwitchCosts) -> float:
    """Return the prefill time that hides all loads of the greedy plan, estimated from above.

    The runs that hide a load take longer than it by less than one run.
    """
    return sum(costs.load_s) + costs.blocks * max(costs.repeated_s)


class _Timeline:
    """The block runs and loads of a plan, as it is made."""

    def __init__(self, costs: SwitchCosts) -> None:
        self._costs = costs
        self._now = 0.0
        self._loaded = 0.0
        self._repeats: list[bool] = []
        self._loads: list[PlannedLoad] = []
        self.pending = list(range(costs.blocks))
        """The blocks that have their first graph."""

    def upcoming(self) -> list[tuple[int, float]]:
        """The block runs that are left, with the graphs that the blocks have now."""
        runs = self._costs.chunks * self._costs.blocks
        blocks = (run % self._costs.blocks for run in range(len(self._repeats), runs))
        return [(block, self._seconds(block)) for block in blocks]

    def run(self, runs: int) -> None:
        """Compute the next ``runs`` block runs."""
        for _ in range(runs):
            block = len(self._repeats) % self._costs.blocks
            self._repeats.append(block not in self.pending)
            self._now += self._seconds(block)

    def load(self, block: int) -> None:
        """Load ``block`` from now on, or once the loads before it have ended."""
        started = max(self._now, self._loaded)
        self._loaded = started + self._costs.load_s[block]
        self._loads.append(PlannedLoad(block, started, self._loaded))

    def finish(self) -> SwitchPlan:
        """Run what is left, and load the blocks that are pending behind it."""
        self.run(len(self.upcoming()))
        for block in reversed(self.pending):
            self.load(block)
        blocks = self._costs.blocks
        chunks = (self._repeats[at : at + blocks] for at in range(0, len(self._repeats), blocks))
        return SwitchPlan(tuple(self._loads), tuple(map(tuple, chunks)), self._now)

    def _seconds(self, block: int) -> float:
        return (self._costs.prefill_s if block in self.pending else self._costs.repeated_s)[block]
