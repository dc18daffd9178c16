"""The engine bench on the nano model: equal greedy tokens, and speed at two precisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from ..common.prompts import RandomWords
from ..common.report import Cell, Table
from .greedy import PROMPTS, count_equal
from .sides import EngineSide, Settings, SideName
from .speeds import (
    COLUMNS,
    DECODE,
    Rates,
    Work,
    answers_of,
    compare,
    least_ratio,
    warm_sides,
)

PREFILLS: Final = {"prefill, 100 words": 100, "prefill, 400 words": 400}
BATCH: Final = 8
"""Answers at once."""
QUICK: Final = Work(
    15, PREFILLS, decode_words=100, decode_tokens=256, batch_words=20, batch_tokens=96, batches=(BATCH,)
)
FULL: Final = Work(
    31, PREFILLS, decode_words=100, decode_tokens=512, batch_words=20, batch_tokens=192, batches=(BATCH,)
)
_SIDES: Final[tuple[SideName, SideName]] = ("agentrt", "openvino_genai")


@dataclass(frozen=True, slots=True)
class NanoResult:
    """Figures and tables of the nano model."""

    equal_prompts: int
    """Of :data:`~agentrt.bench.engine.greedy.PROMPTS`, those with equal greedy tokens at f32."""
    ratios: Mapping[str, float]
    """Ours ÷ openvino_genai's at OpenVINO's own precisions: ``decode``, ``prefill`` and ``batch8``."""
    table: Table


def measure_nano(work: Work, threads: int, progress: Callable[[str], None]) -> NanoResult:
    """Compare both engines on the nano model, with ``threads`` each."""
    exact = Settings(threads, inference_precision="f32", kv_cache_precision="f32")
    rows: list[tuple[Cell, ...]] = []
    with _both(exact) as sides:
        progress(f"nano: greedy tokens of {PROMPTS} prompts, f32")
        equal = count_equal(sides, RandomWords(2))
        progress(f"nano: equal: {equal} of {PROMPTS}; speed at f32")
        rows += [rates.row("f32, f32 KV") for rates in compare(sides, work, RandomWords(3), progress)]
    with _both(Settings(threads)) as sides:
        progress("nano: speed at OpenVINO's own precisions")
        speeds = compare(sides, work, RandomWords(3), progress)
        rows += [rates.row("OpenVINO's choice") for rates in speeds]
    title = f"tokens per second, nano model, {threads} threads"
    return NanoResult(equal, _ratios(speeds, work), Table(title=title, columns=COLUMNS, rows=tuple(rows)))


def _ratios(speeds: list[Rates], work: Work) -> dict[str, float]:
    headline = {"decode": DECODE, "prefill": list(work.prefills)[-1], "batch8": answers_of(BATCH)}
    return {name: least_ratio(speeds, what) for name, what in headline.items()}


def _both(settings: Settings) -> AbstractContextManager[dict[SideName, EngineSide]]:
    """Both engines, loaded and warm."""
    from agentrt.runtime.nano import MODEL_DIRECTORY

    def warm_up(side: EngineSide) -> None:
        for _ in range(3):
            side.time_one(made.take(100), 32)
            side.time_batch([made.take(20) for _ in range(BATCH)], 8)

    made = RandomWords(1)
    return warm_sides(dict.fromkeys(_SIDES, str(MODEL_DIRECTORY)), settings, warm_up)
