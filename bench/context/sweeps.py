"""Traces on every side: switching latencies on the disk of the machine (LLMS, Fig. 9) and on a slow one, how
many contexts can be active there (Fig. 10), and latencies by the size of chunks (Fig. 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

from ..common.estimates import Estimate, bootstrap, mean, median, quantile
from ..common.report import Cell, Table
from .disk import fast_folder
from .replay import Setting, Switch, replay
from .swappers import BASELINES, IN_MEMORY, OURS, VLLM_SQ, SwapPolicy
from .traces import PATTERNS, TaskTexts, draw_trace

Texts = Callable[[Callable[[str], int]], TaskTexts]
Progress = Callable[[str], None]

LATENCY_LIMIT_MS: Final = 25.0
"""Mean switching latency up to which contexts count as active (LLMS, Fig. 10)."""
SLOW_DISK: Final = 5e7
"""Bytes a second of the slow disk. On faster ones a whole context of a small model with grouped-query
attention is read within the limit, however many contexts there are. This speed is to their keys and values
what UFS 3.1 is to those of a model of 7 B parameters without grouped queries."""
_TIGHT_BUDGET: Final = 1.25
"""Memory where switches are to read, in contexts of full length."""
_FULL_LENGTH: Final = 2048
"""Tokens of a context for which the deltas of Table 3 are taken as they are."""
_MARGIN_TOKENS: Final = 64
"""Of the chat template and the last answer."""
_MS: Final = 1e3


@dataclass(frozen=True, slots=True)
class TraceSize:
    """How much of each trace is replayed."""

    contexts: tuple[int, ...]
    """Numbers of active contexts on the disk of the machine."""
    calls: int
    """For each context, in the mean."""
    max_tokens: int
    """Of one context."""
    budget: float
    """Memory, in contexts of that many tokens at 8 bits."""
    slow_disk: tuple[int, int] | None = None
    """Numbers of active contexts on the slow disk: the first that is tried, and the most."""
    groups: tuple[int, ...] = ()
    """KV blocks that are read and written together, with the most contexts on the disk of the machine."""
    patterns: bool = False
    """Whether the other patterns are replayed, too, with the most contexts, on ours and VLLM-SQ."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace on one side."""

    side: str
    pattern: str
    contexts: int
    switches: tuple[Switch, ...]

    @property
    def ms(self) -> list[float]:
        return [_MS * each.seconds for each in self.switches]

    @property
    def counted(self) -> list[tuple[int, float]]:
        """The number of contexts and the latency of each switch."""
        return [(self.contexts, ms) for ms in self.ms]


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
        """Return every side on random traces by number of contexts, and two on other patterns (Fig. 9)."""
        size = self._size
        kinds: list[tuple[str, int, tuple[SwapPolicy, ...]]]
        kinds = [("random", contexts, (OURS, *BASELINES)) for contexts in size.contexts]
        if size.patterns:
            others = (pattern for pattern in PATTERNS if pattern != "random")
            kinds += [(pattern, max(size.contexts), (OURS, VLLM_SQ)) for pattern in others]
        return [
            self._replay(policy, pattern, contexts, self._setting)
            for pattern, contexts, policies in kinds
            for policy in policies
        ]

    def on_slow_disk(self) -> list[Replayed]:
        """Return the sides that keep 8 bits on random traces, with the slow disk (Fig. 10).

        Each side has twice as many contexts again and again, until they are too many or the most. Ours that
        compresses in memory has as many as ours at last.
        """
        if self._size.slow_disk is None:
            return []
        setting, (first, most) = replace(self._setting, disk=SLOW_DISK), self._size.slow_disk

        def up_to_the_limit(policy: SwapPolicy) -> list[Replayed]:
            found = [self._replay(policy, "random", first, setting)]
            while found[-1].contexts < most and not _is_crossed(found[-1].counted):
                contexts = min(2 * found[-1].contexts, most)
                found.append(self._replay(policy, "random", contexts, setting))
            return found

        ours = up_to_the_limit(OURS)
        in_memory = self._replay(IN_MEMORY, "random", ours[-1].contexts, setting)
        return [*ours, *up_to_the_limit(VLLM_SQ), in_memory]

    def by_group(self, block_tokens: int) -> list[Replayed]:
        """Return ours with chunks of so many blocks, which have ``block_tokens`` tokens (Fig. 14).

        There is memory for little more than the context that is called, so that most switches read.
        """
        budget_bytes = int(_TIGHT_BUDGET * self._setting.context_bytes)
        setting, contexts = replace(self._setting, budget_bytes=budget_bytes), max(self._size.contexts)
        policies = [
            replace(OURS, name=f"{blocks * block_tokens} tokens", group=blocks)
            for blocks in self._size.groups
        ]
        return [self._replay(policy, "random", contexts, setting) for policy in policies]

    def _replay(self, policy: SwapPolicy, pattern: str, contexts: int, setting: Setting) -> Replayed:
        self._progress(f"{policy.name}, {pattern}, {contexts} contexts")
        scale = min(1.0, setting.max_tokens / _FULL_LENGTH)
        trace = draw_trace(pattern, contexts, self._size.calls * contexts, scale=scale)
        with TemporaryDirectory(ignore_cleanup_errors=True) as disk, fast_folder() as memory:
            folder = Path(disk) if setting.disk is None else memory
            switches = replay(self._model, policy, trace, setting, self._texts, folder)
        return Replayed(policy.name, pattern, contexts, tuple(switches))


def latency_table(replayed: Sequence[Replayed]) -> Table:
    """Figure 9: the switching latency of every side by pattern and number of contexts."""
    return Table(
        title="switching latency in ms (LLMS, Fig. 9)",
        columns=(
            *("pattern", "contexts", "side", "mean", "median"),
            *("switches", "tokens", "cached tokens"),
        ),
        rows=tuple(
            (
                each.pattern,
                each.contexts,
                each.side,
                mean(each.ms),
                median(each.ms),
                len(each.switches),
                sum(switch.tokens for switch in each.switches),
                sum(switch.cached_tokens for switch in each.switches),
            )
            for each in replayed
            if each.switches
        ),
    )


@dataclass(frozen=True, slots=True)
class SwitchPair:
    """One switch on two sides."""

    contexts: int
    """Of the trace."""
    ours: float
    theirs: float
    """Milliseconds."""


def pairs(replayed: Iterable[Replayed], side: str) -> list[SwitchPair]:
    """Return the switches of the traces that ours and ``side`` have replayed, call by call."""
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    for each in replayed:
        for switch, ms in zip(each.switches, each.ms, strict=True):
            found.setdefault((each.pattern, each.contexts, switch.call), {})[each.side] = ms
    return [
        SwitchPair(contexts, of_call[OURS.name], of_call[side])
        for (_, contexts, _), of_call in found.items()
        if OURS.name in of_call and side in of_call
    ]


def switch_figures(replayed: Sequence[Replayed]) -> dict[str, Estimate]:
    """Return the figures of switches on the machine's disk; those that were not measured are left out."""
    found: dict[str, Estimate] = {}
    for baseline in BASELINES:
        if both := pairs(replayed, baseline.name):
            name = baseline.name.lower().replace("-", "_")
            found[f"switch_latency_ratio_vs_{name}_mean"] = bootstrap(both, _ratio_of_means)
    ours = [ms for each in replayed if each.side == OURS.name for ms in each.ms]
    if (p95 := quantile(ours, 0.95)) is not None:
        found["switch_p95_ms"] = p95
    return found


def _ratio_of_means(drawn: Sequence[SwitchPair]) -> float:
    return sum(each.theirs for each in drawn) / sum(each.ours for each in drawn)


def slow_disk_figures(replayed: Sequence[Replayed]) -> dict[str, Estimate]:
    """Return the figure of contexts on the slow disk.

    Where ours stays below the limit with the most contexts, it counts as able to have these. The figure is
    left out where VLLM-SQ does, too: the ratio is not known then.
    """
    both = [
        (each.side, switch)
        for each in replayed
        if each.side in (OURS.name, VLLM_SQ.name)
        for switch in each.counted
    ]
    if not _is_crossed(switch for side, switch in both if side == VLLM_SQ.name):
        return {}
    return {"active_contexts_ratio_vs_vllm_sq_at_25ms": bootstrap(both, _ratio_of_active)}


def _ratio_of_active(drawn: Sequence[tuple[str, tuple[int, float]]]) -> float:
    ours, theirs = (
        active_contexts(switch for side, switch in drawn if side == name)
        for name in (OURS.name, VLLM_SQ.name)
    )
    return ours / max(1.0, theirs)


def slow_disk_table(replayed: Sequence[Replayed]) -> Table:
    """Return the mean latency of every side by number of contexts, and how many can be active (Fig. 10)."""
    found = {(each.side, each.contexts): each for each in replayed if each.switches}
    counts = sorted({contexts for _, contexts in found})

    def row(side: str) -> tuple[Cell, ...]:
        of_side = [found.get((side, contexts)) for contexts in counts]
        switches = [switch for each in of_side if each for switch in each.counted]
        active: Cell = None
        if side != IN_MEMORY.name:  # which is measured with one number of contexts
            active = (
                bootstrap(switches, active_contexts)
                if _is_crossed(switches)
                else f"over {max(contexts for contexts, _ in switches)}"
            )
        return side, *(mean(each.ms) if each else None for each in of_side), active

    return Table(
        title="switching latency in ms on a slow disk (LLMS, Fig. 10)",
        columns=("side", *(f"{contexts} contexts" for contexts in counts), "active contexts at 25 ms"),
        rows=tuple(row(side) for side in dict.fromkeys(side for side, _ in found)),
    )


def group_table(replayed: Sequence[Replayed]) -> Table:
    """Return the switching latency by what is read and written together (Fig. 14)."""
    return Table(
        title="switching latency in ms by tokens of a chunk (LLMS, Fig. 14)",
        columns=("chunk", "mean", "median", "switches", "MB read for a switch"),
        rows=tuple(
            (
                *(each.side, mean(each.ms), median(each.ms), len(each.switches)),
                mean([switch.read_bytes / 1e6 for switch in each.switches]),
            )
            for each in replayed
            if each.switches
        ),
    )


def _means(switches: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the mean latency by number of contexts, the least first, of switches with both."""
    found: dict[int, list[float]] = {}
    for contexts, ms in switches:
        found.setdefault(contexts, []).append(ms)
    return {contexts: fmean(found[contexts]) for contexts in sorted(found)}


def _is_crossed(switches: Iterable[tuple[int, float]]) -> bool:
    return max(_means(switches).values(), default=0.0) > LATENCY_LIMIT_MS


def active_contexts(switches: Iterable[tuple[int, float]]) -> float:
    """Return how many contexts can be active at a mean latency of :data:`LATENCY_LIMIT_MS` (LLMS, Fig. 10).

    Each of the ``switches`` is a number of contexts and a latency in milliseconds; between the means of two
    numbers is interpolated. The result is at most the largest number, and 0 if the smallest is too many.
    """
    below = 0.0
    before: tuple[int, float] | None = None
    for contexts, ms in _means(switches).items():
        if ms > LATENCY_LIMIT_MS:
            if before is not None:
                share = (LATENCY_LIMIT_MS - before[1]) / (ms - before[1])
                below = before[0] + share * (contexts - before[0])
            break
        before, below = (contexts, ms), float(contexts)
    return below
