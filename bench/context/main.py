"""The bench of contexts: traces of LLMS on every side, restarts, and what keeping contexts costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..common.bench_model import BenchModel, open_given_models
from ..common.estimates import Estimate
from ..common.machine import describe_machine
from ..common.parts import ContextPart
from ..common.report import BenchReport, Table
from ..engines.llama_cpp import describe_builds
from .accuracy import HELD_BACK, NEWS, Accuracy, accuracy_figures, accuracy_table, measure_accuracy
from .restart import measure_restart, restart_figures, restart_table
from .returns import measure_returns, return_figures, returns_table
from .storage import measure_density_overhead, measure_slowdown
from .sweeps import (
    Texts,
    Traces,
    TraceSize,
    group_table,
    latency_table,
    slow_disk_figures,
    slow_disk_table,
    switch_figures,
)
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
    """Of each kind, of which the second half is predicted after a stored first half."""
    window: int
    """Tokens of each."""
    prompt_tokens: int
    """Of prompts for which contexts are stored."""
    returns: tuple[int, int] = (60, 1)
    """Agents that call tools, and how often they are drawn."""


_GROUPS: Final = (1, 2, 4, 8, 16, 32)
_TRACES: Final = TraceSize((4, 8), 3, 2048, 2.25, slow_disk=(4, 64), groups=_GROUPS, patterns=True)
FULL: Final = Size(_TRACES, (1000, 4000), 3, 7, 10, 1024, 512, (400, 3))
QUICK: Final = Size(TraceSize((3, 8), 3, 512, 2.5), (1000,), 1, 2, 2, 512, 128)
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
LMK drops them. The ratios compare each side's mean over the switches of all traces that it has replayed \
with ours of the same calls; intervals are over switches. active_contexts_ratio_vs_vllm_sq_at_25ms \
compares how many contexts of random traces have a mean latency of 25 ms at most, interpolated, on a disk \
that takes 50 MB/s: each side has twice as many again and again until they are too many; ours that are not \
with the most count as these. KV blocks have a fixed length, so what varies as a chunk is how many are read \
and written together, by default 16 and 32; there is memory for 1.25 contexts then. \
After a restart a context is continued in a new process by its first request. Times \
are to the first token, from that request or from the start of the process, in which the model is opened; \
its own file is in the page cache, what was stored is not. Computed is the same prompt of no app, the \
process's second request, and counts as if it had been the first. \
restart_ttft_ratio_vs_llama_cpp_restore is llama.cpp's time, from its restored slot, over ours, the least \
of all lengths and of both precisions of its cache: its default, 16 bits, and 8 as ours. \
inference_slowdown_pct is of batches of requests whose contexts are stored, density_overhead_pct of times \
to the first token of prompts whose density is measured, each the median over pairs. \
compressed_ppl_increase_pct is that of the second halves of texts, after first halves that were stored \
with context_compression=0.5: of news articles, and (…_held_back) of passages of an encyclopedia, with \
which no setting was chosen; intervals are over texts. kv_recomputed_ratio_vs_lru is of tokens of known \
prefixes that recorded agents compute again after their tools have run, against LRU with equal memory, in \
virtual time and through the runtime's block manager: a quarter, half or three quarters (…_at_…) of the \
peak of what conversations need whose tools run. The figures without a share are the highest of the three. \
One agent begins a second (Poisson); a token is four characters; requests are answered at once; users go on \
after 30 s (exponential). Tools usually take what is drawn once for each, 86 % up to a second, and each \
call varies about that; requests tell it as tool_seconds, or it is learned, or that of other tools is told \
(…_shuffled_hints), or the app with the most agents says 1 ms (…_beside_hostile_app, of other apps). \
Intervals are over draws. The table has Belady's order by the known next use, also after users' pauses."""


def run(
    *,
    quick: bool,
    workloads: Path | None,
    progress: Progress,
    models: Sequence[str] = ("nano",),
    parts: Collection[ContextPart] = tuple(ContextPart),
) -> BenchReport:
    """Measure ``parts`` with the first of ``models``, compression with all of them.

    Prompts come from the folder ``workloads``, with Spec-Bench and MTRAG; without it the bench has its own.

    Raises:
        ModelNotFoundError, ModelFormatError: a model cannot be opened.
        WorkloadError: a workload is missing or damaged.
    """
    from agentrt.runtime import LocalRuntime, RuntimeConfig

    machine, size, model = describe_machine(), SIZES[quick], models[0]
    found = open_given_models(models, progress)[model]
    texts_of = _texts(found, workloads)
    with LocalRuntime.open(model, RuntimeConfig(kv_cache_precision="u8")) as runtime:
        texts = texts_of(runtime.count_tokens)
        bytes_a_token = runtime._arena.memory_bytes / runtime._arena.capacity_tokens
        block_tokens = runtime._arena.block_tokens
    figures: dict[str, Estimate] = {}
    tables: list[Table] = []
    length = min(size.traces.max_tokens, found.context_length - _MARGIN_TOKENS)
    if ContextPart.TRACES in parts:
        traces = Traces(model, bytes_a_token, texts_of, replace(size.traces, max_tokens=length), progress)
        replayed, slow = traces.sides(), traces.on_slow_disk()
        figures |= switch_figures(replayed) | slow_disk_figures(slow)
        tables += [latency_table(replayed), *([slow_disk_table(slow)] if slow else [])]
        if grouped := traces.by_group(block_tokens):
            tables.append(group_table(grouped))
    if ContextPart.RETURNS in parts and workloads is not None:
        recomputed = measure_returns(workloads, *size.returns, progress)
        figures |= return_figures(recomputed)
        tables.append(returns_table(recomputed))
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
        long = {
            kind: [texts.take(task, round(1.5 * size.window)) for _ in range(size.texts)]
            for kind, task in ((NEWS, TASKS[1]), (HELD_BACK, TASKS[3]))
        }
        accuracies: list[Accuracy] = []
        for each in models:
            accuracies += measure_accuracy(each, long, size.window, progress)
        figures |= accuracy_figures(accuracies, model)
        tables += [accuracy_table(accuracies)] if accuracies else []
    method = METHOD
    if ContextPart.RESTARTS in parts and model.endswith(".gguf"):
        method += f" llama.cpp is its build for this processor where there is one. {describe_builds()}"
    return BenchReport(bench="context", machine=machine, figures=figures, tables=tuple(tables), method=method)


def _texts(model: BenchModel, workloads: Path | None) -> Texts:
    if workloads is None:
        return lambda count_tokens: own_texts(model.prompts(0), count_tokens)
    return lambda count_tokens: load_texts(workloads, count_tokens)
