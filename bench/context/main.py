"""The bench of contexts: traces of LLMS on every side, restarts, and what keeping contexts costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..common.bench_model import BenchModel, open_given_models
from ..common.machine import describe_machine
from ..common.parts import ContextPart
from ..common.report import BenchReport, Table
from ..models.bfcl import FILE as BFCL
from ..models.bfcl import load_tasks
from .accuracy import accuracy_figures, accuracy_table, measure_accuracy, measure_tool_calls
from .restart import Restart, measure_restart, restart_table
from .storage import measure_density_overhead, measure_slowdown
from .sweeps import Texts, Traces, TraceSize, latency_table, switch_figures
from .traces import TASKS, load_texts, own_texts

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
    """Of prompts for which contexts are stored."""
    tasks: Mapping[str, int]
    """Of BFCL, by group."""


_TASKS: Final = {"simple": 16, "multiple": 8, "parallel": 8}
_TRACES: Final = TraceSize((2, 4, 8, 16), 6, 2048, 2.25, sweeps=True)
FULL: Final = Size(_TRACES, (1000, 8000), 3, 7, 24, 1024, 512, _TASKS)
_FEW_TASKS: Final = {"simple": 2, "multiple": 2}
_FEW_TRACES: Final = TraceSize((3, 8), 3, 512, 2.5, sweeps=False)
QUICK: Final = Size(_FEW_TRACES, (1000,), 1, 2, 2, 512, 128, _FEW_TASKS)
SIZES: dict[bool, Size] = {False: FULL, True: QUICK}

_MARGIN_TOKENS: Final = 512
METHOD: Final = """\
Traces are of Table 3's tasks in turn, with real texts; a context that would exceed 2,048 tokens is begun \
again. The time between calls is cut short once everything is stored, and the files' pages are dropped \
from memory before each call, so that reads come from the device. Switching latency is the time from the \
submission of a call until the first token that is new could be computed; first calls of a context do not \
count. All sides run on this engine with the same memory, all of it KV arena; where ours compresses in \
memory, 1.25 contexts are arena and the rest stored chunks. VLLM-SQ keeps 8 bits, VLLM-S, Swapping and LMK \
keep float16; VLLM-S and VLLM-SQ write blocks when their memory is needed, Swapping whole contexts, and \
LMK drops them. The ratios compare each side's mean over the switches of all traces with ours. \
active_contexts_ratio_at_25ms compares how many contexts of random traces have a mean latency of 25 ms at \
most, interpolated, with the best baseline's. restart_ttft_ratio_vs_recompute_* continue a context in a \
new process and compare the median time to the first token with that of the same prompt computed; \
restart_ttft_ratio_vs_llama_cpp_restore is llama.cpp's, from its restored slot, over ours, the least of \
all lengths. compressed_ppl_increase_pct is that of the second halves of texts, after first halves that \
were stored with context_compression=0.5. compressed_bfcl_loss_points compares the exact calls of BFCL's \
tasks with prompts that are computed, and with prompts that were stored so and loaded."""


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
    figures: dict[str, float] = {}
    tables: list[Table] = []
    length = min(size.traces.max_tokens, found.context_length - _MARGIN_TOKENS)
    if ContextPart.TRACES in parts:
        traces = Traces(model, bytes_a_token, texts_of, replace(size.traces, max_tokens=length), progress)
        replayed = traces.sides()
        figures |= switch_figures(replayed)
        tables += [latency_table(replayed), *traces.sweeps()]
    if ContextPart.RESTARTS in parts:
        fitting = [each for each in size.restarts if each + _MARGIN_TOKENS <= found.context_length]
        restarts = [measure_restart(model, tokens, texts, size.repeats, progress) for tokens in fitting]
        figures |= restart_figures(restarts)
        tables += [restart_table(restarts)] if restarts else []
    if ContextPart.STORAGE in parts:
        work = (model, size.prompt_tokens, size.batches, texts, progress)
        figures["inference_slowdown_pct"] = measure_slowdown(*work)
        figures["density_overhead_pct"] = measure_density_overhead(*work)
    if ContextPart.COMPRESSION in parts:
        # Longer than a window, as their tokens are only estimated.
        long = [texts.take(TASKS[1], round(1.5 * size.window)) for _ in range(size.texts)]
        accuracies = measure_accuracy(model, long, size.window, progress)
        figures |= accuracy_figures(accuracies)
        tables += [accuracy_table(accuracies)] if accuracies else []
        if workloads is not None and (workloads / BFCL).is_file():
            tasks = load_tasks(workloads, size.tasks)
            figures["compressed_bfcl_loss_points"] = measure_tool_calls(model, tasks, progress)
    return BenchReport(bench="context", machine=machine, figures=figures, tables=tuple(tables), method=METHOD)


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
