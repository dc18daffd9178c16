"""The engine bench on a model of 0.5 B random weights: speed, memory, breakdown of a decode step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..common.report import Cell, Table
from .sides import EngineSide, Settings, SideName
from .speeds import (
    ANSWERS,
    BATCH,
    COLUMNS,
    DECODE,
    Work,
    compare,
    least_ratio,
    prompts,
    warm_sides,
    words_for,
)
from .step import measure_decode_step

CACHE_GIB: Final = 1
"""Of agentrt and of openvino_genai's batching; LLMPipeline with its defaults chooses for itself."""
GROUP: Final = 128
"""The dynamic quantization group of the rows beside OpenVINO's choice."""
PREFILL_TOKENS: Final = (512, 2048)
"""The figure is that of the first."""
DECODE_PROMPT_TOKENS: Final = 128
BATCH_PROMPT_TOKENS: Final = 64
_SIDES: Final[tuple[SideName, ...]] = ("agentrt", "openvino_genai", "openvino_genai_batching")
STEPS: Final = 64
"""Decode steps whose operations are timed."""


@dataclass(frozen=True, slots=True)
class LargerWork:
    """Amount of work."""

    repetitions: int
    repetitions_at_group: int
    """Where both sides have :data:`GROUP`."""
    decode_tokens: int
    batch_tokens: int


FULL: Final = LargerWork(11, 5, decode_tokens=128, batch_tokens=64)


@dataclass(frozen=True, slots=True)
class LargerResult:
    """Figures by name, and tables."""

    figures: Mapping[str, float]
    tables: tuple[Table, ...]


def measure_larger(
    name: str, path: Path, profiles: Path, work: LargerWork, progress: Callable[[str], None]
) -> LargerResult:
    """Compare the engines on the model in ``path``; its profiles are kept in the folder ``profiles``."""
    usual = Settings(cache_gib=CACHE_GIB, profile_folder=profiles)
    progress(f"{name}: profile, then the operations of a decode step")
    # First: a side that had to measure the profile itself would count the memory for that.
    step = measure_decode_step(path, usual.runtime_config(), past=DECODE_PROMPT_TOKENS, steps=STEPS)
    progress(f"{name}: speed at OpenVINO's own precisions")
    with _all(path, usual) as sides:
        rates = compare(sides, _plan(sides["agentrt"], work.repetitions, work), progress)
        memory = {side: process.peak_memory() for side, process in sides.items()}
    progress(f"{name}: speed with dynamic quantization groups of {GROUP}")
    with _all(path, replace(usual, dynamic_quantization_group_size=GROUP)) as sides:
        grouped = compare(sides, _plan(sides["agentrt"], work.repetitions_at_group, work), progress)
    decoded = statistics.median(next(each.agentrt for each in rates if each.what == DECODE))
    figures = {
        "decode_ratio_vs_openvino_genai": least_ratio(rates, DECODE),
        "prefill_ratio_vs_openvino_genai": least_ratio(rates, _prefill(PREFILL_TOKENS[0])),
        "batch8_ratio_vs_openvino_genai": least_ratio(rates, ANSWERS),
        "decode_bandwidth_fraction": step.bandwidth_fraction(decoded),
    }
    ours, theirs = memory["agentrt"], memory["openvino_genai_batching"]
    if ours is not None and theirs is not None:
        figures["peak_rss_ratio_vs_openvino_genai"] = ours / theirs
    rows = [each.row("OpenVINO's choice") for each in rates]
    rows += [each.row(f"groups of {GROUP}") for each in grouped]
    tables = (
        Table(title=f"tokens per second, {name} model", columns=COLUMNS, rows=tuple(rows)),
        _memory_table(name, memory),
        step.table(name, 1 / decoded),
    )
    return LargerResult(figures, tables)


def _all(path: Path, settings: Settings) -> AbstractContextManager[dict[SideName, EngineSide]]:
    """All sides, loaded and warmed up with the longest prompt."""

    def warm_up(side: EngineSide) -> None:
        side.time_one(next(made)(words_for(PREFILL_TOKENS[-1], side)), 32)
        side.time_batch([next(made)(10) for _ in range(BATCH)], 8)

    made = prompts(seed=1)
    return warm_sides(_SIDES, str(path), settings, warm_up)


def _plan(side: EngineSide, repetitions: int, work: LargerWork) -> Work:
    return Work(
        repetitions,
        {_prefill(tokens): words_for(tokens, side) for tokens in PREFILL_TOKENS},
        decode_words=words_for(DECODE_PROMPT_TOKENS, side),
        decode_tokens=work.decode_tokens,
        batch_words=words_for(BATCH_PROMPT_TOKENS, side),
        batch_tokens=work.batch_tokens,
    )


def _prefill(tokens: int) -> str:
    return f"prefill, {tokens} tokens"


def _memory_table(name: str, memory: Mapping[SideName, int | None]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (side, None if peak is None else round(peak / 2**20)) for side, peak in memory.items()
    ]
    return Table(
        title=f"peak resident memory, {name} model, after all of the above at OpenVINO's own precisions",
        columns=("side", "MiB"),
        rows=tuple(rows),
    )
