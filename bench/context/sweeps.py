"""Traces on every side: switching latencies (LLMS, Fig. 9), by technique (Fig. 13), and by disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Final

from ..common.report import Cell, Table
from .disk import DISKS, fast_folder
from .replay import Setting, Switch, replay
from .swappers import ABLATION, BASELINES, IN_MEMORY, OURS, VLLM_SQ, SwapPolicy
from .traces import PATTERNS, TaskTexts, draw_trace

Texts = Callable[[Callable[[str], int]], TaskTexts]
Progress = Callable[[str], None]

LATENCY_LIMIT_S: Final = 0.025
"""Switching latency up to which contexts count as active (LLMS, Fig. 10)."""
_FULL_LENGTH: Final = 2048
"""Tokens of a context for which the deltas of Table 3 are taken as they are."""
_MARGIN_TOKENS: Final = 64
"""Of the chat template and the last answer."""
_MS: Final = 1e3


@dataclass(frozen=True, slots=True)
class TraceSize:
    """How much of each trace is replayed."""

    contexts: tuple[int, ...]
    """Numbers of active contexts; the patterns and the sweeps have the one in the middle."""
    calls: int
    """For each context, in the mean."""
    max_tokens: int
    """Of one context."""
    budget: float
    """Memory, in contexts of that many tokens at 8 bits."""
    sweeps: bool
    """Whether the other patterns, disks and the ablation are measured."""

    @property
    def middle(self) -> int:
        """The number of contexts at which other parameters are changed."""
        return self.contexts[len(self.contexts) // 2]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace on one side."""

    side: str
    pattern: str
    contexts: int
    switches: tuple[Switch, ...]

    @property
    def seconds(self) -> list[float]:
        return [each.seconds for each in self.switches]

    @property
    def mean_s(self) -> float:
        return fmean(self.seconds)


class Traces:
    """Replays of traces with one model."""

    def __init__(
        self, model: str, token_bytes: float, texts: Texts, size: TraceSize, progress: Progress
    ) -> None:
        """``token_bytes`` are the bytes of a token's keys and values at 8 bits."""
        self._model = model
        self._texts = texts
        self._size = size
        self._progress = progress
        context_bytes = (size.max_tokens + _MARGIN_TOKENS) * token_bytes
        self._setting = Setting(int(size.budget * context_bytes), context_bytes, size.max_tokens)

    def sides(self) -> list[Replayed]:
        """Return every side on random traces by number of contexts, and on the other patterns (Fig. 9)."""
        size = self._size
        kinds = [("random", contexts) for contexts in size.contexts]
        if size.sweeps:
            kinds += [(pattern, size.middle) for pattern in PATTERNS if pattern != "random"]
        return [
            self._replay(policy, pattern, contexts, self._setting)
            for pattern, contexts in kinds
            for policy in (OURS, *BASELINES)
        ]

    def sweeps(self) -> list[Table]:
        """Return the mean latencies of the ablation, and by disk."""
        if not self._size.sweeps:
            return []
        techniques = {"this one": self._means((OURS, *ABLATION), self._setting)}
        disks = {
            f"{disk.name}, {disk.bytes_a_second / 1e6:.0f} MB/s": self._means(
                (OURS, IN_MEMORY, VLLM_SQ), replace(self._setting, disk=disk.bytes_a_second)
            )
            for disk in DISKS
        }
        return [
            _means_table("switching latency in ms by technique (LLMS, Fig. 13)", techniques),
            _means_table("switching latency in ms by disk", disks),
        ]

    def _means(self, policies: Sequence[SwapPolicy], setting: Setting) -> dict[str, float]:
        return {
            policy.name: self._replay(policy, "random", self._size.middle, setting).mean_s
            for policy in policies
        }

    def _replay(self, policy: SwapPolicy, pattern: str, contexts: int, setting: Setting) -> Replayed:
        self._progress(f"{policy.name}, {pattern}, {contexts} contexts")
        scale = min(1.0, setting.max_tokens / _FULL_LENGTH)
        trace = draw_trace(pattern, contexts, self._size.calls * contexts, scale=scale)
        with TemporaryDirectory(ignore_cleanup_errors=True) as disk, fast_folder() as memory:
            folder = Path(disk) if setting.disk is None else memory
            switches = replay(self._model, policy, trace, setting, self._texts, folder)
        return Replayed(policy.name, pattern, contexts, tuple(switches))


def _means_table(title: str, means_s: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the mean switching latency of several sides, in milliseconds, by disk."""
    sides = list(next(iter(means_s.values())))
    rows: list[tuple[Cell, ...]] = [
        (disk, *(round(_MS * of_disk[side], 2) for side in sides)) for disk, of_disk in means_s.items()
    ]
    return Table(title=title, columns=("disk", *sides), rows=tuple(rows))


def latency_table(replayed: Sequence[Replayed]) -> Table:
    """Figure 9: the switching latency of every side by pattern and number of contexts."""
    return Table(
        title="switching latency in ms (LLMS, Fig. 9)",
        columns=(
            *("pattern", "contexts", "side", "mean", "median", "p95"),
            *("switches", "tokens", "cached tokens"),
        ),
        rows=tuple(
            (
                each.pattern,
                each.contexts,
                each.side,
                round(_MS * each.mean_s, 2),
                round(_MS * median(each.seconds), 2),
                round(_MS * _p95(each.seconds), 2),
                len(each.switches),
                sum(switch.tokens for switch in each.switches),
                sum(switch.cached_tokens for switch in each.switches),
            )
            for each in replayed
        ),
    )


def switch_figures(replayed: Sequence[Replayed]) -> dict[str, float]:
    """Return the figures of switching latencies; those that were not measured are left out."""
    found: dict[str, float] = {}
    ours = {(each.pattern, each.contexts): each for each in replayed if each.side == OURS.name}
    for baseline in BASELINES:
        pairs = [(each, ours[each.pattern, each.contexts]) for each in replayed if each.side == baseline.name]
        if pairs:
            name = baseline.name.lower().replace("-", "_")
            theirs, own = (sum(sum(each.seconds) for each in side) for side in zip(*pairs, strict=True))
            found[f"switch_latency_ratio_vs_{name}_mean"] = theirs / own
    if ours:
        found["switch_p95_ms"] = _MS * _p95([seconds for each in ours.values() for seconds in each.seconds])
    means: dict[str, dict[int, float]] = {}
    for each in replayed:
        if each.pattern == "random":
            means.setdefault(each.side, {})[each.contexts] = each.mean_s
    active = {side: active_contexts(of_side) for side, of_side in means.items()}
    others = [active[each.name] for each in BASELINES if each.name in active]
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


def _p95(values: Sequence[float]) -> float:
    import numpy as np

    return float(np.quantile(values, 0.95))
