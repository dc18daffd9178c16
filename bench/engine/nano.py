"""The engine bench on the nano model: equal greedy tokens, and speed at two precisions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from ..common.report import Cell, Table
from .sides import EngineSide, Messages, Settings, SideName
from .speeds import (
    ANSWERS,
    BATCH,
    COLUMNS,
    DECODE,
    Rates,
    Work,
    compare,
    least_ratio,
    prompts,
    warm_sides,
)

PROMPTS: Final = 50
"""Whose greedy tokens are compared."""
PREFILLS: Final = {"prefill, 100 words": 100, "prefill, 400 words": 400}
QUICK: Final = Work(15, PREFILLS, decode_words=100, decode_tokens=256, batch_words=20, batch_tokens=96)
FULL: Final = Work(31, PREFILLS, decode_words=100, decode_tokens=512, batch_words=20, batch_tokens=192)
_SIDES: Final[tuple[SideName, SideName]] = ("agentrt", "openvino_genai")
_EQUALITY_TOKENS: Final = 48
_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "search_notes",
        "description": "Search the user's notes for a phrase.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


@dataclass(frozen=True, slots=True)
class NanoResult:
    """Figures and tables of the nano model."""

    equal_prompts: int
    """Of :data:`PROMPTS`, those with equal greedy tokens at f32."""
    ratios: Mapping[str, float]
    """Ours ÷ openvino_genai's at OpenVINO's own precisions: ``decode``, ``prefill`` and ``batch8``."""
    table: Table


def measure_nano(work: Work, threads: int, progress: Callable[[str], None]) -> NanoResult:
    """Compare both engines on the nano model, with ``threads`` each."""
    exact = Settings(threads, inference_precision="f32", kv_cache_precision="f32")
    rows: list[tuple[Cell, ...]] = []
    with _both(exact) as sides:
        progress(f"nano: greedy tokens of {PROMPTS} prompts, f32")
        equal = _count_equal(sides)
        progress(f"nano: equal: {equal} of {PROMPTS}; speed at f32")
        rows += [rates.row("f32, f32 KV") for rates in compare(sides, work, progress)]
    with _both(Settings(threads)) as sides:
        progress("nano: speed at OpenVINO's own precisions")
        speeds = compare(sides, work, progress)
        rows += [rates.row("OpenVINO's choice") for rates in speeds]
    title = f"tokens per second, nano model, {threads} threads"
    return NanoResult(equal, _ratios(speeds, work), Table(title=title, columns=COLUMNS, rows=tuple(rows)))


def _ratios(speeds: list[Rates], work: Work) -> dict[str, float]:
    headline = {"decode": DECODE, "prefill": list(work.prefills)[-1], "batch8": ANSWERS}
    return {name: least_ratio(speeds, what) for name, what in headline.items()}


def _both(settings: Settings) -> AbstractContextManager[dict[SideName, EngineSide]]:
    """Both engines, loaded and warm."""
    from agentrt.runtime.nano import MODEL_DIRECTORY

    def warm_up(side: EngineSide) -> None:
        for _ in range(3):
            side.time_one(next(made)(100), 32)
            side.time_batch([next(made)(20) for _ in range(BATCH)], 8)

    made = prompts(seed=1)
    return warm_sides(_SIDES, str(MODEL_DIRECTORY), settings, warm_up)


def _count_equal(sides: Mapping[SideName, EngineSide]) -> int:
    """Count the prompts, half of them with tools, whose greedy tokens are equal."""
    rng = random.Random(0)
    made = prompts(seed=2)
    equal = 0
    for index in range(PROMPTS):
        messages: Messages = [{"role": "user", "content": next(made)(rng.choice([1, 5, 20, 60, 150]))}]
        tools = [_TOOL] if index % 2 else None
        ours, theirs = (sides[name].greedy_tokens(messages, tools, _EQUALITY_TOKENS) for name in _SIDES)
        equal += ours == theirs
    return equal
