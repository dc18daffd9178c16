"""How long a model takes to its first token, and the memory it takes: each opening in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from ..common.estimates import Estimate, median
from ..common.machine import peak_memory_bytes
from ..common.process import SideProcess
from ..engines.local import AgentRT
from ..engines.side import Request, with_cache

_CACHE_BYTES = 2**30
_SHORT = Request("Say hello.", 1)
_LONG = Request("Summarize: " + "the quick brown fox jumps over the lazy dog. " * 40, 16)
"""About 400 tokens."""
_MIB = 2**20


@dataclass(frozen=True)
class Opening:
    """Seconds from the start of opening to the first token, and the process's peak memory in MiB.

    The peak is that after a prompt of some hundred tokens and an answer of 16.
    """

    seconds: float
    peak_mib: float
    profile_s: float
    """Seconds, of the time to the first token, in which the profile was measured."""
    weights_mib: float
    """Size of the converted weights."""


def opening_figures(model: str, repetitions: int, progress: Callable[[str], None]) -> dict[str, Estimate]:
    """Open ``model`` with an empty cache folder and again with what is in it by then, in each repetition."""
    firsts, seconds = [], []
    for number in range(1, repetitions + 1):
        progress(f"opening {model} for the first time and again, {number} of {repetitions}")
        with TemporaryDirectory(ignore_cleanup_errors=True) as cache:
            firsts.append(_in_process(model, cache))
            seconds.append(_in_process(model, cache))
    return {
        "first_open_peak_ratio_vs_weights": median([each.peak_mib / each.weights_mib for each in firsts]),
        "first_open_s": median([each.seconds for each in firsts]),
        "second_open_s": median([each.seconds for each in seconds]),
        "first_open_profile_s": median([each.profile_s for each in firsts]),
        "first_open_peak_mib": median([each.peak_mib for each in firsts]),
        "second_open_peak_mib": median([each.peak_mib for each in seconds]),
    }


def _in_process(model: str, cache: str) -> Opening:
    with SideProcess(with_cache, cache, _Opener) as process:
        opening: Opening = process.call("open", model)
        return opening


class _Opener:
    """Opens a model in a new process, and writes one token, then a longer answer."""

    def open(self, model: str) -> Opening:
        from agentrt.runtime.model.directory import open_model_directory
        from agentrt.runtime.model.native.library import native_library

        begun = time.perf_counter()
        side = AgentRT(model, {"memory_bytes": _CACHE_BYTES})
        side.generate(_SHORT)
        seconds = time.perf_counter() - begun
        side.generate(_LONG)
        ends = [begun for _, begun in side.steps[1:]] + [side.steps[-1][1]]
        measured = (
            end - began
            for (name, began), end in zip(side.steps, ends, strict=True)
            if name.startswith("measuring")
        )
        weights = open_model_directory(model, native=native_library).graph.with_suffix(".bin").stat().st_size
        return Opening(seconds, (peak_memory_bytes() or 0) / _MIB, sum(measured), weights / _MIB)
