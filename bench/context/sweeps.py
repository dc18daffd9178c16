"""Traces on every side, and the switching latency by one parameter at a time (LLMS, Figs. 9-15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from .disk import DISKS, fast_folder
from .policies import ABLATION, BASELINES, IN_MEMORY, OURS, VLLM_SQ, SwapPolicy
from .replay import Setting, replay
from .replayed import Replayed
from .texts import TaskTexts
from .traces import PATTERNS, draw_trace

Texts = Callable[[Callable[[str], int]], TaskTexts]
Progress = Callable[[str], None]

_FULL_LENGTH: Final = 2048
"""Tokens of a context for which the deltas of Table 3 are taken as they are."""
_MARGIN_TOKENS: Final = 64
"""Of the chat template and the last answer."""


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
    """Whether the other patterns, budgets, lengths, intervals, disks and the ablation are measured."""

    @property
    def middle(self) -> int:
        """The number of contexts at which other parameters are changed."""
        return self.contexts[len(self.contexts) // 2]


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """The mean switching latencies of some sides at one value of a parameter."""

    title: str
    parameter: str
    value: str | float
    means_s: dict[str, float]


class Traces:
    """Replays of traces with one model."""

    def __init__(
        self, model: str, token_bytes: float, texts: Texts, size: TraceSize, progress: Progress
    ) -> None:
        """``token_bytes`` are the bytes of a token's keys and values at 8 bits."""
        self._model = model
        self._token_bytes = token_bytes
        self._texts = texts
        self._size = size
        self._progress = progress

    def sides(self) -> list[Replayed]:
        """Return every side on random traces by number of contexts, and on the other patterns (Fig. 9)."""
        size = self._size
        kinds = [("random", contexts) for contexts in size.contexts]
        if size.sweeps:
            kinds += [(pattern, size.middle) for pattern in PATTERNS if pattern != "random"]
        return [
            self._replay(policy, pattern, contexts, self._setting())
            for pattern, contexts in kinds
            for policy in (OURS, *BASELINES)
        ]

    def sweeps(self) -> list[SweepPoint]:
        """Return the means by budget, length, interval and disk, and of the ablation."""
        if not self._size.sweeps:
            return []
        setting, found = self._setting(), list[SweepPoint]()
        title = "switching latency in ms by memory (LLMS, Fig. 10)"
        for budget in (1.5, 3.0, 6.0):
            found.append(self._point(title, "contexts that fit at 8 bits", budget, self._setting(budget)))
        title = "switching latency in ms by length (LLMS, Fig. 11)"
        for length in (512, 1024):
            changed = self._setting(length=length)
            found.append(self._point(title, "tokens of a context", length, changed))
        title = "switching latency in ms by technique (LLMS, Fig. 13)"
        found.append(self._point(title, "disk", "this one", setting, (OURS, *ABLATION)))
        title = "switching latency in ms by request interval (LLMS, Fig. 15b)"
        for interval_s in (0.0, 1.0):
            changed = replace(setting, waits=False)
            found.append(self._point(title, "mean s between calls", interval_s, changed))
        title = "switching latency in ms by disk"
        for disk in DISKS:
            changed = replace(setting, disk=disk.bytes_a_second)
            name = f"{disk.name}, {disk.bytes_a_second / 1e6:.0f} MB/s"
            found.append(self._point(title, "disk", name, changed, (OURS, IN_MEMORY, VLLM_SQ)))
        return found

    def _point(
        self,
        title: str,
        parameter: str,
        value: str | float,
        setting: Setting,
        policies: Sequence[SwapPolicy] = (OURS, VLLM_SQ),
    ) -> SweepPoint:
        interval_s = float(value) if not setting.waits else None
        replayed = [
            self._replay(policy, "random", self._size.middle, setting, interval_s) for policy in policies
        ]
        return SweepPoint(title, parameter, value, {each.side: each.mean_s for each in replayed})

    def _replay(
        self,
        policy: SwapPolicy,
        pattern: str,
        contexts: int,
        setting: Setting,
        interval_s: float | None = None,
    ) -> Replayed:
        self._progress(f"{policy.name}, {pattern}, {contexts} contexts")
        trace = draw_trace(
            pattern,
            contexts,
            self._size.calls * contexts,
            interval_s=interval_s or 1e-3,
            scale=min(1.0, setting.max_tokens / _FULL_LENGTH),
        )
        with TemporaryDirectory(ignore_cleanup_errors=True) as disk, fast_folder() as memory:
            folder = Path(disk) if setting.disk is None else memory
            switches = replay(self._model, policy, trace, setting, self._texts, folder)
        return Replayed(policy.name, pattern, contexts, tuple(switches))

    def _setting(self, budget: float | None = None, length: int | None = None) -> Setting:
        """Return the setting with memory for ``budget`` contexts of ``length`` tokens."""
        length = self._size.max_tokens if length is None else length
        budget = self._size.budget if budget is None else budget
        context_bytes = (length + _MARGIN_TOKENS) * self._token_bytes
        return Setting(int(budget * context_bytes), context_bytes, length)
