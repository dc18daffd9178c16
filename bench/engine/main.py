"""The engine bench: the local runtime against openvino_genai on the same model with the same settings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agentrt.extras import require_extra

from ..common.bench_model import BenchModel, open_given_models
from ..common.machine import describe_machine
from ..common.prompts import RandomWords
from ..common.random_gguf import HALF_BILLION, random_model_directory
from ..common.report import BenchReport, Table
from . import larger, nano
from .cuts import COMPARED, EXACT, Agreement, agreement_table, compare_cuts
from .greedy import PROMPTS, greedy_equal_prompts
from .speeds import Work

_LARGER: Final = "0.5 B"
_SHAPE: Final = HALF_BILLION


def run(
    *, quick: bool, workloads: Path | None, progress: Callable[[str], None], model: str | None = None
) -> BenchReport:
    """Compare greedy tokens, prefill and decode speed on the nano model, and the rest on a larger one.

    ``quick`` leaves the larger model out. ``workloads`` is not used: greedy speed does not depend on the
    content of the prompts. With ``model`` everything is measured on this model instead.

    Raises:
        ModelNotFoundError, ModelFormatError: the model cannot be opened.
        MissingExtraError: it is a GGUF file, and the extra ``bench`` is not installed.
    """
    if model is not None:
        return _run_given(model, quick, progress)
    machine = describe_machine()
    threads = machine.usable_cores
    work = nano.QUICK if quick else nano.FULL
    small = nano.measure_nano(work, threads, progress)
    figures = {"greedy_equal_prompts": float(small.equal_prompts)}
    tables: tuple[Table, ...] = (small.table,)
    if quick:
        figures |= {f"{name}_ratio_vs_openvino_genai": small.ratios[name] for name in ("decode", "prefill")}
    else:
        figures |= {f"nano_{name}_ratio_vs_openvino_genai": ratio for name, ratio in small.ratios.items()}
        measured, more = _measure_larger(progress)
        figures |= measured
        tables += more
    return BenchReport(
        bench="engine",
        machine=machine,
        figures=figures,
        tables=tables,
        method=_nano_method(threads, work) + ("" if quick else _larger_method(larger.FULL)),
    )


def _run_given(name: str, quick: bool, progress: Callable[[str], None]) -> BenchReport:
    """Measure everything on the model that the user names so."""
    machine = describe_machine()
    model = open_given_models([name], progress)[name]
    if model.gguf is not None:
        require_extra("bench")  # llama.cpp
    work = larger.QUICK if quick else larger.FULL
    progress(f"{model.title}: greedy tokens of {PROMPTS} prompts, f32")
    figures = {"greedy_equal_prompts": float(greedy_equal_prompts(model))}
    with tempfile.TemporaryDirectory() as folder:
        measured = larger.measure_larger(model, Path(folder), work, progress)
    agreement = list(compare_cuts(model, COMPARED, progress))
    return BenchReport(
        bench="engine",
        machine=machine,
        figures={**figures, **measured.figures, **_difference(agreement)},
        tables=(*measured.tables, agreement_table(agreement)),
        method=_given_method(model, work),
    )


def _measure_larger(progress: Callable[[str], None]) -> tuple[dict[str, float], tuple[Table, ...]]:
    """Figures and tables of the larger model, and what cutting changes in both."""
    with tempfile.TemporaryDirectory() as folder:
        path = random_model_directory(Path(folder), _SHAPE, progress)
        model = BenchModel.of(_LARGER, path, RandomWords)
        measured = larger.measure_larger(model, Path(folder) / "profiles", larger.FULL, progress)
    agreement: list[Agreement] = []
    for each in (BenchModel.of("nano", "nano", RandomWords), model):
        agreement += compare_cuts(each, COMPARED, progress)
    return {**measured.figures, **_difference(agreement)}, (*measured.tables, agreement_table(agreement))


def _difference(agreement: list[Agreement]) -> dict[str, float]:
    """Return the figure; none for a model that cannot be cut, as the runtime says with a warning."""
    exact = [each.max_abs_diff for each in agreement if each.precision == EXACT]
    return {"logits_max_abs_diff_cut": max(exact)} if exact else {}


def _nano_method(threads: int, work: Work) -> str:
    return (
        f"The nano model in two processes, one per engine, both with {threads} threads, the same inference "
        "and KV precision and OpenVINO's default dynamic quantization. openvino_genai is LLMPipeline with "
        f"its defaults. {work.repetitions} repetitions, the engines taking turns at going first; a ratio is "
        "the median of the ratios within a repetition. No prompt occurs twice, so that no cache helps. "
        "Prefill is the whole call for one token: chat template, tokenizer, model, detokenizer. Decode is "
        f"from the first token to the last of {work.decode_tokens}, by each engine's own clock. Answers are "
        f"{nano.BATCH} prompts at once with {work.batch_tokens} tokens each, from the call to the last one. "
        "Figures are those at OpenVINO's own precisions, prefill for the longer prompt; greedy tokens are "
        "compared at f32."
    )


def _given_method(model: BenchModel, work: larger.LargerWork) -> str:
    return (
        f"{model.title} in the same OpenVINO directory for all sides{_llama_cpp_method(model)}, asked about "
        "passages of English prose in its own chat template; answers are what it writes, and go on beyond "
        f"its end token where a number of tokens is timed. greedy_equal_prompts: of {PROMPTS} prompts, half "
        "of them with a tool if the template takes tools, at f32 without dynamic quantization. Figures of "
        "nano are left out: they are another model's."
        f"{_sides_method(work, larger.prefill_tokens(model))}"
    )


def _larger_method(work: larger.LargerWork) -> str:
    return (
        f" The {_LARGER} model has random int8 weights (GGUF, Q8_0), converted once for all sides."
        f"{_sides_method(work, larger.PREFILL_TOKENS)} logits_max_abs_diff_cut is that of both models."
    )


def _llama_cpp_method(model: BenchModel) -> str:
    if model.gguf is None:
        return ""
    return (
        " but llama.cpp's server (xllamacpp, 16 sequences in one f16 cache, decode by its own clock), "
        "which has the GGUF file itself"
    )


def _sides_method(work: larger.LargerWork, prefills: tuple[int, ...]) -> str:
    batches = " or ".join(map(str, larger.BATCHES))
    by_default = (
        f" ({work.repetitions_by_default} with the dynamic quantization groups of each side's choice)"
        if work.repetitions_by_default
        else ""
    )
    return (
        f" All sides on OpenVINO quantise activations in groups of {larger.GROUP}, as agentrt does by itself "
        "where a model bears it, and leave threads and other precisions to OpenVINO. agentrt has its default "
        f"configuration but for a KV cache of {larger.CACHE_TOKENS:,} tokens, and cuts the model by a "
        "profile measured now. Beside it, each in its own process, are LLMPipeline with its defaults, and "
        "openvino_genai_batching: "
        "LLMPipeline over the continuous batching pipeline with 256 tokens a step, split prompts, at most 16 "
        "sequences, no prefix cache and as large a cache. "
        f"{work.repetitions} repetitions, the engines taking turns at going first{by_default}; "
        "a figure is the median of the ratios within a repetition, to whichever of "
        "the two does better, or for *_vs_best_peer of all peers. Prompts have about the tokens that the "
        f"table says, {larger.DECODE_PROMPT_TOKENS} before {work.decode_tokens} decode steps and "
        f"{larger.BATCH_PROMPT_TOKENS} before each of {batches} answers of {work.batch_tokens}; the prefill "
        f"figure is that of {prefills[0]}. Peak memory is VmHWM after all that, beside "
        "openvino_genai_batching's, or the least of all peers'. rest_between_steps_ms is the median "
        "time of a decoded token in which no kernel of agentrt runs, in the same process. The bandwidth "
        "fraction is what a decode step reads (weights and scales as stored, keys and values) times "
        "agentrt's steps a second, over the machine's read bandwidth, measured right behind them, the median "
        f"of {work.repetitions}. The times of operations are OpenVINO's counters, in whole "
        f"microseconds, in the pieces that the runtime runs, the mean over {larger.STEPS} steps; a matrix's "
        "reads are what OpenVINO keeps of it, with scales in f32. Logits are compared at every position of a "
        f"prompt of {COMPARED.chunks * COMPARED.chunk_tokens} tokens in {COMPARED.chunks} chunks and of "
        f"{COMPARED.decode_steps} decode steps; the figure is the largest difference at f32, in both ways to "
        "cut."
    )
