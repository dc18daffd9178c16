"""How long a model takes to its first token, and the memory it takes: each opening in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..common.machine import peak_memory_bytes
from ..common.process import SideProcess
from ..engines.local import AgentRT
from ..engines.openvino_genai import ContinuousBatching
from ..engines.side import Request, Side, with_cache

CACHE_GIB = 1
"""Size of the KV cache on both sides."""
LONG_TOKENS = 16
_SHORT = Request("Say hello.", 1)
_LONG = Request("Summarize: " + "the quick brown fox jumps over the lazy dog. " * 40, LONG_TOKENS)
"""About 400 tokens."""
_MIB = 2**20


@dataclass(frozen=True)
class Opening:
    """Seconds from the start of opening to the first token, and the process's peak memory in MiB.

    The peak is that after a prompt of some hundred tokens and :data:`LONG_TOKENS` tokens of answer.
    """

    seconds: float
    peak_mib: float
    profile_s: float = 0.0
    """Seconds, of the time to the first token, in which the profile was measured."""
    weights_mib: float = 0.0
    """Size of the converted weights, where this is measured."""


def opening_figures(
    model: str, cache: str, repeats: int, progress: Callable[[str], None]
) -> dict[str, float]:
    """Open ``model`` with the empty folder ``cache``, then ``repeats`` times on each side in turn."""
    progress(f"opening {model} for the first time")
    first = _in_process("open_ours", model, cache)
    ours, genai = [], []
    for number in range(1, repeats + 1):
        progress(f"opening {model} again and in OpenVINO GenAI, {number} of {repeats}")
        ours.append(_in_process("open_ours", model, cache))
        genai.append(_in_process("open_genai", model, cache))
    found = (
        {"first_open_peak_ratio_vs_weights": first.peak_mib / first.weights_mib} if first.weights_mib else {}
    )
    peak_mib = median(each.peak_mib for each in ours)
    return found | {
        "first_open_s": first.seconds,
        "second_open_s": median(each.seconds for each in ours),
        "first_open_profile_s": first.profile_s,
        "first_open_peak_mib": first.peak_mib,
        "second_open_peak_mib": peak_mib,
        "peak_rss_ratio_vs_openvino_genai": peak_mib / median(each.peak_mib for each in genai),
    }


def _in_process(method: str, model: str, cache: str) -> Opening:
    with SideProcess(with_cache, cache, _Opener) as process:
        opening: Opening = process.call(method, model)
        return opening


def converted(make: Callable[..., object], model: str, *arguments: Any) -> object:
    """Return a side that opens the directory to which ``model`` was converted."""
    from agentrt.runtime.model.directory import open_model_directory

    return make(str(open_model_directory(model).path), *arguments)


class _Opener:
    """Opens a model in a new process, and writes one token, then a longer answer."""

    def open_ours(self, model: str) -> Opening:
        """Open it in agentrt."""
        from agentrt.runtime.model.directory import open_model_directory

        begun = time.perf_counter()
        side = AgentRT(model, {"memory_bytes": CACHE_GIB * 2**30})
        seconds, peak_mib = _answered(side, begun)
        ends = [begun for _, begun in side.steps[1:]] + [side.steps[-1][1]]
        measured = (
            end - began
            for (name, began), end in zip(side.steps, ends, strict=True)
            if name.startswith("measuring")
        )
        weights = open_model_directory(model).graph.with_suffix(".bin").stat().st_size
        return Opening(seconds, peak_mib, sum(measured), weights / _MIB)

    def open_genai(self, model: str) -> Opening:
        """Open the converted model in OpenVINO GenAI's continuous batching."""
        begun = time.perf_counter()
        side: Any = converted(ContinuousBatching, model, CACHE_GIB)
        return Opening(*_answered(side, begun))


def _answered(side: Side, begun: float) -> tuple[float, float]:
    side.generate(_SHORT)
    seconds = time.perf_counter() - begun
    side.generate(_LONG)
    return seconds, (peak_memory_bytes() or 0) / _MIB
