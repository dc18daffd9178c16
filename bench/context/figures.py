"""The figures of the context bench, from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from .accuracy import COMPRESSED
from .policies import BASELINES, OURS
from .replayed import Replayed, percentile

if TYPE_CHECKING:
    from ..common.crash_points import CrashPoints
    from .accuracy import Accuracy
    from .poison import Poisoned
    from .recompute import Recomputed
    from .restart import Restart
    from .slowdown import Slowdown
    from .tool_calls import ToolCalls

LATENCY_LIMIT_S: Final = 0.025
"""Switching latency up to which contexts count as active (LLMS, Fig. 10)."""


@dataclass(slots=True)
class Measured:
    """All that was measured of one model."""

    replayed: list[Replayed] = field(default_factory=list)
    """Every side on every trace."""
    restarts: list[Restart] = field(default_factory=list)
    slowdown: Slowdown | None = None
    recomputed: Recomputed | None = None
    poisoned: list[Poisoned] = field(default_factory=list)
    crashes: CrashPoints | None = None
    accuracies: list[Accuracy] = field(default_factory=list)
    """By way of storing; the first is that of the arena."""
    tool_calls: ToolCalls | None = None
    density_overhead_pct: float | None = None

    def figures(self) -> dict[str, float]:
        """Return the figures; those that were not measured are left out."""
        found = dict(_switch_figures(self.replayed))
        for restart in self.restarts:
            found[f"restart_ttft_ratio_vs_recompute_{restart.name}"] = restart.ratio_vs_recompute
        against = [restart.ratio_vs_llama_cpp for restart in self.restarts]
        ratios = [ratio for ratio in against if ratio is not None]
        if ratios:
            found["restart_ttft_ratio_vs_llama_cpp_restore"] = min(ratios)
        if self.slowdown is not None:
            found["inference_slowdown_pct"] = self.slowdown.percent
        if self.recomputed is not None and self.recomputed.max_abs_diff is not None:
            found["recompute_max_abs_diff"] = self.recomputed.max_abs_diff
        if self.crashes is not None:
            found["crash_points_survived"] = self.crashes.survived
            found["crash_points_tried"] = self.crashes.tried
        for accuracy in self.accuracies:
            if accuracy.name == COMPRESSED:
                found["compressed_ppl_increase_pct"] = accuracy.increase_pct
        if self.tool_calls is not None:
            found["compressed_bfcl_loss_points"] = self.tool_calls.loss_points
        if self.density_overhead_pct is not None:
            found["density_overhead_pct"] = self.density_overhead_pct
        if self.poisoned:
            equal = sum(each.equal for each in self.poisoned)
            found["poison_free_completions"] = equal / sum(each.completions for each in self.poisoned)
        return found


def _switch_figures(replayed: Sequence[Replayed]) -> dict[str, float]:
    found: dict[str, float] = {}
    ours = {(each.pattern, each.contexts): each for each in replayed if each.side == OURS.name}
    for baseline in BASELINES:
        pairs = [(each, ours[each.pattern, each.contexts]) for each in replayed if each.side == baseline.name]
        if pairs:
            name = baseline.name.lower().replace("-", "_")
            ratio = sum(other.total_s for other, _ in pairs) / sum(own.total_s for _, own in pairs)
            found[f"switch_latency_ratio_vs_{name}_mean"] = ratio
    if ours:
        latencies = [switch.seconds for each in ours.values() for switch in each.switches]
        found["switch_p95_ms"] = 1e3 * percentile(latencies, 0.95)
    active = {side: active_contexts(of_side) for side, of_side in _random_traces(replayed).items()}
    others = [count for side, count in active.items() if side in {each.name for each in BASELINES}]
    if OURS.name in active and others:
        found["active_contexts_ratio_at_25ms"] = active[OURS.name] / max(1.0, *others)
    return found


def active_contexts(means: Mapping[int, float]) -> float:
    """Return how many contexts can be active at a mean latency of :data:`LATENCY_LIMIT_S` (LLMS, Fig. 10).

    ``means`` has the latency in seconds by number of contexts, between which it is interpolated. The result
    is at most the largest of them, and 0 if already the smallest is too many.
    """
    below = 0.0
    before: tuple[int, float] | None = None
    for contexts, mean in sorted(means.items()):
        if mean > LATENCY_LIMIT_S:
            if before is not None:
                share = (LATENCY_LIMIT_S - before[1]) / (mean - before[1])
                below = before[0] + share * (contexts - before[0])
            break
        before, below = (contexts, mean), float(contexts)
    return below


def _random_traces(replayed: Sequence[Replayed]) -> dict[str, dict[int, float]]:
    """The mean latencies of each side in random traces, by number of contexts."""
    found: dict[str, dict[int, float]] = {}
    for each in replayed:
        if each.pattern == "random":
            found.setdefault(each.side, {})[each.contexts] = each.mean_s
    return found
