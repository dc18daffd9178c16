"""Chooses when the blocks of a model on an XPU of static shapes change graphs during prefill (sd.npu §3.2).

Each block has two graphs: one for prompt chunks (G1) and one for decoding (G2), which computes a chunk too if
it is repeated over parts of it. One block is loaded at a time, while others compute.

The greedy rule takes the last block that still has its first graph, and loads it while the next ``k`` block
runs compute: the least ``k`` whose time is not shorter than the load (Eqs. 1 and 2). A block is not computed
while it is loaded: where the ``k`` runs would reach it, the last block before that is tried. Nothing is
loaded during a run for which there is no such block. So the prefill never waits for a load.

Finding the shortest plan is NP-hard (appendix A); ``tests/runtime/heg/test_graph_switch.py`` has the worst
cases of the greedy rule among all small ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SwitchCosts:
    """Profiled seconds of each block."""

    load_s: tuple[float, ...]
    """``T_load(P_j; G2)``"""
    prefill_s: tuple[float, ...]
    """``T_compute(P_i; G1)`` of one chunk."""
    repeated_s: tuple[float, ...]
    """``T_compute(P_i; G2)``, repeated until one chunk is computed."""


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


def switch_seconds(costs: SwitchCosts) -> float:
    """Return the prefill time that hides all loads of the greedy rule, estimated from above.

    The runs that hide a load take longer than it by less than one run.
    """
    return sum(costs.load_s) + len(costs.load_s) * max(costs.repeated_s)
