"""The engine bench: the local runtime against openvino_genai on the same model with the same settings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ..common.machine import describe_machine
from ..common.random_gguf import HALF_BILLION, random_model_directory
from ..common.report import BenchReport, Table
from . import larger, nano
from .cuts import COMPARED, EXACT, Agreement, agreement_table, compare_cuts
from .speeds import BATCH, Work

_LARGER: Final = "0.5 B"
_SHAPE: Final = HALF_BILLION


def run(*, quick: bool, workloads: Path | None, progress: Callable[[str], None]) -> BenchReport:
    """Compare greedy tokens, prefill and decode speed on the nano model, and the rest on a larger one.

    ``quick`` leaves the larger model out. ``workloads`` is not used: greedy speed does not depend on the
    content of the prompts.
    """
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
        method=_nano_method(threads, work) + ("" if quick else _larger_method()),
    )


def _measure_larger(progress: Callable[[str], None]) -> tuple[dict[str, float], tuple[Table, ...]]:
    """Figures and tables of the larger model, and what cutting changes in both."""
    from agentrt.runtime.nano import MODEL_DIRECTORY

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = random_model_directory(folder, _SHAPE, progress)
        measured = larger.measure_larger(_LARGER, path, folder / "profiles", larger.FULL, progress)
    agreement: list[Agreement] = []
    for name, directory in (("nano", MODEL_DIRECTORY), (_LARGER, path)):
        agreement += compare_cuts(name, directory, COMPARED, progress)
    difference = max(each.max_abs_diff for each in agreement if each.precision == EXACT)
    figures = {**measured.figures, "logits_max_abs_diff_cut": difference}
    return figures, (*measured.tables, agreement_table(agreement))


def _nano_method(threads: int, work: Work) -> str:
    return (
        f"The nano model in two processes, one per engine, both with {threads} threads, the same inference "
        "and KV precision and OpenVINO's default dynamic quantization. openvino_genai is LLMPipeline with "
        f"its defaults. {work.repetitions} repetitions, the engines taking turns at going first; a ratio is "
        "the median of the ratios within a repetition. No prompt occurs twice, so that no cache helps. "
        "Prefill is the whole call for one token: chat template, tokenizer, model, detokenizer. Decode is "
        f"from the first token to the last of {work.decode_tokens}, by each engine's own clock. Answers are "
        f"{BATCH} prompts at once with {work.batch_tokens} tokens each, from the call to the last answer. "
        "Figures are those at OpenVINO's own precisions, prefill for the longer prompt; greedy tokens are "
        "compared at f32."
    )


def _larger_method() -> str:
    work, short = larger.FULL, larger.PREFILL_TOKENS[0]
    return (
        f" The {_LARGER} model has random int8 weights (GGUF, Q8_0), converted once for all sides, which "
        "leave threads and precisions to OpenVINO. agentrt has its default configuration but for a cache of "
        f"{larger.CACHE_GIB} GiB, and cuts the model by a profile measured now. Beside it, each in its own "
        "process, are LLMPipeline with its defaults, and openvino_genai_batching: LLMPipeline over the "
        "continuous batching pipeline with 256 tokens a step, split prompts, at most 16 sequences, no prefix "
        f"cache and as large a cache. {work.repetitions} repetitions in turns as above "
        f"({work.repetitions_at_group} with dynamic quantization groups of {larger.GROUP}); a figure is the "
        "ratio to whichever of the two does better. Prompts have about the tokens that the table says, "
        f"{larger.DECODE_PROMPT_TOKENS} before {work.decode_tokens} decode steps and "
        f"{larger.BATCH_PROMPT_TOKENS} before each of {BATCH} answers of {work.batch_tokens}; the prefill "
        f"figure is that of {short}. Peak memory is VmHWM after all that, beside openvino_genai_batching's. "
        "The bandwidth fraction is what a decode step reads (weights and scales as stored, keys and values) "
        "times the median of agentrt's steps a second, over the machine's read bandwidth, measured in the "
        "same run. The times of operations are OpenVINO's counters, in whole microseconds, in the pieces "
        f"that the runtime runs, the mean over {larger.STEPS} steps; a matrix's reads are what OpenVINO "
        "keeps of it, with scales in f32. Logits are compared at every position of a prompt of "
        f"{COMPARED.chunks * COMPARED.chunk_tokens} random tokens in {COMPARED.chunks} chunks and of "
        f"{COMPARED.decode_steps} decode steps; the figure is the largest difference at f32 over both models "
        "and both ways to cut."
    )
