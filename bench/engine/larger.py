"""The engine bench on a model larger than nano: speed, memory, breakdown of a decode step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..common.bench_model import BenchModel
from ..common.prompts import Prompts
from ..common.report import Cell, Table
from .sides import Cache, EngineSide, Settings, SideName
from .speeds import (
    COLUMNS,
    DECODE,
    Rates,
    Work,
    answers_of,
    compare,
    least_ratio,
    warm_sides,
    words_for,
)
from .step import measure_decode_step

BATCHES: Final = (8, 16)
"""Answers at once."""
CACHE_TOKENS: Final = 4096
"""Of the KV caches of all sides but LLMPipeline with its defaults, which chooses for itself. llama.cpp's
server allocates its whole cache when it starts, and agentrt keeps past prompts in what it has."""
GROUP: Final = 128
"""The dynamic quantization group of all sides on OpenVINO: agentrt chooses it for models that bear it, and
OpenVINO's default is another one. A comparison of engines has to have the same work on both sides."""
PREFILL_TOKENS: Final = (512, 2048)
"""The figure is that of the first."""
_PROMPT_SHARE: Final = 0.8
"""Of a model's context, for the longest prompt: its words are not counted exactly, and an answer follows."""
DECODE_PROMPT_TOKENS: Final = 128
BATCH_PROMPT_TOKENS: Final = 64
_OPENVINO: Final[tuple[SideName, ...]] = ("agentrt", "openvino_genai", "openvino_genai_batching")
_GENAI: Final = "openvino_genai"
_VS_GENAI: Final = "_ratio_vs_openvino_genai"
_VS_BEST: Final = "_ratio_vs_best_peer"
STEPS: Final = 64
"""Decode steps whose operations are timed."""


@dataclass(frozen=True, slots=True)
class LargerWork:
    """Amount of work."""

    repetitions: int
    repetitions_by_default: int
    """Where each side has its own choice of groups; 0 leaves these rows out."""
    decode_tokens: int
    batch_tokens: int


FULL: Final = LargerWork(11, 5, decode_tokens=128, batch_tokens=64)
QUICK: Final = LargerWork(3, 0, decode_tokens=64, batch_tokens=32)


@dataclass(frozen=True, slots=True)
class LargerResult:
    """Figures by name, and tables."""

    figures: Mapping[str, float]
    tables: tuple[Table, ...]


def measure_larger(
    model: BenchModel, profiles: Path, work: LargerWork, progress: Callable[[str], None]
) -> LargerResult:
    """Compare the engines on ``model``; its profiles are kept in the folder ``profiles``."""
    name, path = model.title, model.path
    progress(f"{name}: profile, then the operations of a decode step")
    # First: a side that had to measure the profile itself would count the memory for that.
    config = Settings(profile_folder=profiles, dynamic_quantization_group_size=GROUP).runtime_config()
    step = measure_decode_step(path, config, past=DECODE_PROMPT_TOKENS, steps=STEPS)
    usual = Settings(cache=Cache(CACHE_TOKENS, step.cache_bytes(CACHE_TOKENS)), profile_folder=profiles)
    progress(f"{name}: speed with dynamic quantization groups of {GROUP}")
    with _sides(model, replace(usual, dynamic_quantization_group_size=GROUP), peers=True) as sides:
        plan = _plan(model, sides["agentrt"], work)
        rates = compare(sides, plan, model.prompts(3), progress)
        rest_s = sides["agentrt"].rest_between_steps(
            model.prompts(5).take(plan.decode_words), work.decode_tokens
        )
        fraction = _bandwidth_fraction(sides["agentrt"], step.bytes, model.prompts(6), plan)
        memory = {side: process.peak_memory() for side, process in sides.items()}
    by_default: list[Rates] = []
    if work.repetitions_by_default:
        progress(f"{name}: speed with the groups of each side's choice")
        with _sides(model, usual) as sides:
            fewer = replace(plan, repetitions=work.repetitions_by_default)
            by_default = compare(sides, fewer, model.prompts(4), progress)
    decoded = statistics.median(next(each.agentrt for each in rates if each.what == DECODE))
    headline = {"decode": DECODE, "prefill": next(iter(plan.prefills))}
    headline |= {f"batch{batch}": answers_of(batch) for batch in plan.batches}
    genai = {f"{name}{_VS_GENAI}": least_ratio(rates, what, _GENAI) for name, what in headline.items()}
    best = {f"{name}{_VS_BEST}": least_ratio(rates, what) for name, what in headline.items()}
    figures = {
        **genai,
        **(best if model.gguf is not None else {}),
        "decode_bandwidth_fraction": fraction,
        "rest_between_steps_ms": rest_s * 1e3,
        **_memory_figures(memory),
    }
    rows = [each.row(f"groups of {GROUP}") for each in rates]
    rows += [each.row("each side's choice") for each in by_default]
    tables = (
        Table(title=f"tokens per second, {name} model", columns=COLUMNS, rows=tuple(rows)),
        _memory_table(name, memory),
        step.table(name, 1 / decoded, rest_s),
    )
    return LargerResult(figures, tables)


def prefill_tokens(model: BenchModel) -> tuple[int, ...]:
    """Return the prompt lengths of :data:`PREFILL_TOKENS` that ``model`` has room for, at least the first."""
    longest = int(_PROMPT_SHARE * model.context_length)
    fitting = tuple(tokens for tokens in PREFILL_TOKENS if tokens <= longest)
    return fitting or (min(PREFILL_TOKENS[0], longest),)


def _bandwidth_fraction(side: EngineSide, step_bytes: int, prompts: Prompts, work: Work) -> float:
    """Return the median share of the machine's read bandwidth that decoding uses.

    A step reads ``step_bytes``. Each time both are measured one after the other: the bandwidth of a machine
    that is shared with others changes from minute to minute.
    """
    from agentrt.runtime.xpu.machine import measure_read_bandwidth

    shares: list[float] = []
    for _ in range(work.repetitions):
        timed = side.time_one(prompts.take(work.decode_words), work.decode_tokens)
        read = step_bytes * (timed.new_tokens - 1) / timed.decode_s
        shares.append(read / measure_read_bandwidth())
    return statistics.median(shares)


def _memory_figures(memory: Mapping[SideName, int | None]) -> dict[str, float]:
    """Return our peak memory divided by theirs; nothing where the system does not report it."""
    peaks = {side: peak for side, peak in memory.items() if peak is not None}
    if not peaks:
        return {}
    ours = peaks.pop("agentrt")
    figures = {f"peak_rss{_VS_GENAI}": ours / peaks["openvino_genai_batching"]}
    if "llama_cpp" in peaks:
        figures[f"peak_rss{_VS_BEST}"] = ours / min(peaks.values())
    return figures


def _sides(
    model: BenchModel, settings: Settings, *, peers: bool = False
) -> AbstractContextManager[dict[SideName, EngineSide]]:
    """All sides, loaded and warmed up with the longest prompt.

    With ``peers`` llama.cpp is one of them, if there is a GGUF file for it.
    """

    def warm_up(side: EngineSide) -> None:
        side.time_one(made.take(words_for(prefill_tokens(model)[-1], side, made)), 32)
        side.time_batch([made.take(10) for _ in range(max(BATCHES))], 8)

    made = model.prompts(1)
    models = dict.fromkeys(_OPENVINO, str(model.path))
    if peers and model.gguf is not None:
        models["llama_cpp"] = str(model.gguf)
    return warm_sides(models, settings, warm_up)


def _plan(model: BenchModel, side: EngineSide, work: LargerWork) -> Work:
    made = model.prompts(2)
    return Work(
        work.repetitions,
        {f"prefill, {tokens} tokens": words_for(tokens, side, made) for tokens in prefill_tokens(model)},
        decode_words=words_for(DECODE_PROMPT_TOKENS, side, made),
        decode_tokens=work.decode_tokens,
        batch_words=words_for(BATCH_PROMPT_TOKENS, side, made),
        batch_tokens=work.batch_tokens,
        batches=BATCHES,
    )


def _memory_table(name: str, memory: Mapping[SideName, int | None]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (side, None if peak is None else round(peak / 2**20)) for side, peak in memory.items()
    ]
    return Table(
        title=f"peak resident memory, {name} model, after all of the above in groups of {GROUP}",
        columns=("side", "MiB"),
        rows=tuple(rows),
    )
