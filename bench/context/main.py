"""The bench of contexts: traces of LLMS on every side, restarts, and what keeping contexts costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..common.bench_model import BenchModel, open_given_models
from ..common.crash_points import crash_points
from ..common.machine import describe_machine
from ..common.parts import ContextPart
from ..common.report import BenchReport, Table
from ..models.bfcl import FILE as BFCL
from ..models.bfcl import load_tasks
from .accuracy import accuracy_figures, accuracy_table, measure_accuracy
from .damage import measure_poison, measure_recompute
from .restart import Restart, measure_restart, restart_table
from .storage import measure_density_overhead, measure_slowdown
from .sweeps import Texts, Traces, TraceSize, latency_table, switch_figures
from .texts import TaskTexts, load_texts, own_texts
from .tool_calls import measure_tool_calls
from .traces import TASKS

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    traces: TraceSize
    restarts: tuple[int, ...]
    """Tokens of the contexts that are continued after a restart."""
    repeats: int
    """Restarts of each."""
    batches: int
    """Of requests with and without stored contexts, and prompts with and without density."""
    texts: int
    """Of which the second half is predicted after a stored first half."""
    window: int
    """Tokens of each."""
    prompt_tokens: int
    """Of prompts for which contexts are stored, recomputed or damaged."""
    completions: int
    """After each kind of damage."""
    tasks: Mapping[str, int]
    """Of BFCL, by group."""
    crashes: int
    """Processes that are killed while they store contexts."""


_TASKS: Final = {"simple": 16, "multiple": 8, "parallel": 8}
_TRACES: Final = TraceSize((2, 4, 8, 16), 6, 2048, 2.25, sweeps=True)
FULL: Final = Size(_TRACES, (1000, 8000), 3, 7, 24, 1024, 512, 100, _TASKS, 500)
_FEW_TASKS: Final = {"simple": 2, "multiple": 2}
_FEW_TRACES: Final = TraceSize((3, 8), 3, 512, 2.5, sweeps=False)
QUICK: Final = Size(_FEW_TRACES, (1000,), 1, 2, 2, 512, 128, 4, _FEW_TASKS, 20)
SIZES: dict[bool, Size] = {False: FULL, True: QUICK}

_MARGIN_TOKENS: Final = 512
_METHOD: Final = """\
Traces have {calls} calls a context in the mean, of Table 3's tasks in turn, with real texts and lengths of \
Table 3 times {scale:.2f}. A context that would exceed {length} tokens is begun again. The time between \
calls (minutes) is cut short once everything is stored, and the files' pages are dropped from memory \
(posix_fadvise) before each call, so that reads come from the device. Switching latency is the time from \
the submission of a call until the first token that is new could be computed: memory is freed, chunks are \
read and decoded, and what was lost is computed; first calls of a context do not count. All sides run on \
this engine with as much memory as {budget:g} contexts take at 8 bits, all of it KV arena; where ours \
compresses in memory, 1.25 contexts are arena and the rest stored chunks. Ours has the default settings. \
VLLM-SQ keeps 8 bits, VLLM-S, Swapping and LMK keep float16; VLLM-S and VLLM-SQ write blocks when their \
memory is needed, Swapping whole contexts, and LMK drops them. The ratios compare each side's mean over the \
switches of all traces with ours; switch_p95_ms is that of all our switches. active_contexts_ratio_at_25ms \
compares how many contexts of random traces have a mean latency of 25 ms at most, interpolated, with the \
best baseline's. restart_ttft_ratio_vs_recompute_* continue a context in a new process, {repeats} times, \
whose files are not in memory, and compare the median time to the first token with that of the same prompt \
computed; restart_ttft_ratio_vs_llama_cpp_restore is llama.cpp's (xllamacpp, its KV cache in float16), from \
its restored slot, over ours, the least of all lengths. inference_slowdown_pct compares requests one after \
the other, whose contexts are stored meanwhile, with requests whose contexts are not. \
recompute_max_abs_diff is the largest difference of a key or value in float32 after every second chunk was \
lost. poison_free_completions is the share of answers after each damage that equal those of a process \
without contexts. crash_points_tried counts processes killed while they store contexts. \
density_overhead_pct compares the time to the first token of prompts whose density is measured and is not. \
compressed_ppl_increase_pct is that of the second halves of texts, after first halves that the runtime has \
stored with context_compression=0.5 (all bytes counted, over those at 8 bits) and that are decoded again; \
static levels go the same way. compressed_bfcl_loss_points compares the exact calls of BFCL's tasks with \
prompts that are computed, and with prompts that were stored so and loaded. Left out: {left_out}."""
_OPTIONAL: Final = (
    *("compressed_ppl_increase_pct", "compressed_bfcl_loss_points", "density_overhead_pct"),
    *("restart_ttft_ratio_vs_recompute_1k", "restart_ttft_ratio_vs_recompute_8k"),
    "restart_ttft_ratio_vs_llama_cpp_restore",
)
"""Figures that depend on the model, on its file, or on parts that compress."""


@dataclass
class _Measured:
    """What was measured of one model."""

    figures: dict[str, float] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    model: str = "nano",
    parts: Collection[ContextPart] = tuple(ContextPart),
) -> BenchReport:
    """Measure ``parts`` with ``model``.

    Prompts come from the folder ``workloads``, with Spec-Bench and MTRAG; without it the bench has its own.

    Raises:
        ModelNotFoundError, ModelFormatError: the model cannot be opened.
        WorkloadError: a workload is missing or damaged.
    """
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    machine, size = describe_machine(), SIZES[quick]
    found = open_given_models([model], progress)[model]
    texts_of = _texts(found, workloads)
    with LocalRuntime.open(model, RuntimeConfig(kv_cache_precision="u8")) as runtime:
        texts = texts_of(runtime.count_tokens)
        bytes_a_token = runtime._arena.memory_bytes / runtime._arena.capacity_tokens
    measured = _Measured(left_out=[f"{part} (not asked for)" for part in ContextPart if part not in parts])
    length = min(size.traces.max_tokens, found.context_length - _MARGIN_TOKENS)
    if ContextPart.TRACES in parts:
        traces = Traces(model, bytes_a_token, texts_of, replace(size.traces, max_tokens=length), progress)
        replayed = traces.sides()
        measured.figures |= switch_figures(replayed)
        measured.tables += [latency_table(replayed), *traces.sweeps()]
    if ContextPart.RESTARTS in parts:
        _measure_restarts(measured, model, found, size, texts, progress)
    if ContextPart.STORAGE in parts:
        measured.figures |= _measure_storage(model, size, texts, progress)
    if ContextPart.COMPRESSION in parts:
        # Longer than a window, as their tokens are only estimated.
        long = [texts.take(TASKS[1], round(1.5 * size.window)) for _ in range(size.texts)]
        accuracies = measure_accuracy(model, long, size.window, progress)
        measured.figures |= accuracy_figures(accuracies)
        measured.tables += [accuracy_table(accuracies)] if accuracies else []
        if workloads is not None and (workloads / BFCL).is_file():
            tasks = load_tasks(workloads, size.tasks)
            lost = measure_tool_calls(model, tasks, progress).loss_points
            measured.figures["compressed_bfcl_loss_points"] = lost
    missing = [f"{figure} (not measured here)" for figure in _OPTIONAL if figure not in measured.figures]
    method = _METHOD.format(
        calls=size.traces.calls,
        scale=min(1.0, length / 2048),
        length=length,
        budget=size.traces.budget,
        repeats=size.repeats,
        left_out="; ".join([*measured.left_out, *missing]) or "nothing",
    )
    return BenchReport(
        bench="context",
        machine=machine,
        figures=measured.figures,
        tables=tuple(measured.tables),
        method=method,
    )


def _measure_storage(model: str, size: Size, texts: TaskTexts, progress: Progress) -> dict[str, float]:
    tokens = size.prompt_tokens
    found = {
        "inference_slowdown_pct": measure_slowdown(model, tokens, size.batches, texts, progress),
        "density_overhead_pct": measure_density_overhead(model, tokens, size.batches, texts, progress),
        **measure_recompute(model, tokens, texts, progress).figures(),
    }
    poisoned = measure_poison(model, tokens, size.completions, texts, progress)
    equal, answers = (
        sum(counts) for counts in zip(*((p.equal, p.completions) for p in poisoned), strict=True)
    )
    progress(f"{size.crashes} processes that are killed")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        crashes = crash_points(Path(folder), size.crashes)
    return found | {
        "poison_free_completions": equal / answers,
        "crash_points_survived": crashes.survived,
        "crash_points_tried": crashes.tried,
    }


def _measure_restarts(
    measured: _Measured, model: str, found: BenchModel, size: Size, texts: TaskTexts, progress: Progress
) -> None:
    """Measure the restarts whose contexts fit the model."""
    restarts: list[Restart] = []
    for tokens in size.restarts:
        if tokens + _MARGIN_TOKENS > found.context_length:
            measured.left_out.append(f"restarts with {tokens} tokens (longer than the model's context)")
            continue
        restarts.append(measure_restart(model, tokens, texts, size.repeats, progress))
    measured.figures |= restart_figures(restarts)
    measured.tables += [restart_table(restarts)] if restarts else []


def restart_figures(restarts: Collection[Restart]) -> dict[str, float]:
    """Return the ratios by length, and the least ratio to llama.cpp."""
    found: dict[str, float] = {}
    for restart in restarts:
        found |= restart.figures()
    against = [ratio for each in restarts if (ratio := each.ratio_vs_llama_cpp) is not None]
    return found | ({"restart_ttft_ratio_vs_llama_cpp_restore": min(against)} if against else {})


def _texts(model: BenchModel, workloads: Path | None) -> Texts:
    if workloads is None:
        return lambda count_tokens: own_texts(model.prompts(0), count_tokens)
    return lambda count_tokens: load_texts(workloads, count_tokens)
