"""How the figures of the context bench are measured, in words."""

from __future__ import annotations

from collections.abc import Sequence

from .figures import Measured
from .sweeps import TraceSize

_FIGURES = (
    "compressed_ppl_increase_pct",
    "compressed_bfcl_loss_points",
    "density_overhead_pct",
    "restart_ttft_ratio_vs_recompute_1k",
    "restart_ttft_ratio_vs_recompute_8k",
    "restart_ttft_ratio_vs_llama_cpp_restore",
)
"""Those that depend on the model, on its file, or on parts that compress."""


def method_of(size: TraceSize, length: int, repeats: int, measured: Measured, left_out: Sequence[str]) -> str:
    """Return the description of the measurement; ``length`` are the tokens of the longest contexts."""
    missing = [figure for figure in _FIGURES if figure not in measured.figures()]
    omitted = "; ".join([*left_out, *(f"{figure} (not measured here)" for figure in missing)])
    return (
        f"Traces have {size.calls} calls a context in the mean, of Table 3's tasks in turn, with real texts "
        f"and lengths of Table 3 times {min(1.0, length / 2048):.2f}. A context that would exceed {length} "
        "tokens is begun again. The time between calls (minutes) is cut short once everything is stored, and "
        "the files' pages are dropped from memory (posix_fadvise) before each call, so that reads come from "
        "the device. Switching latency is the time from the submission of a call until the first token that "
        "is new could be computed: memory is freed, chunks are read and decoded, and what was lost is "
        "computed; first calls of a context do not count. All sides run on this engine with as much memory "
        f"as {size.budget:g} contexts take at 8 bits, all of it KV arena; where ours compresses in memory, "
        "1.25 contexts are arena and the rest stored chunks. Ours has the default settings. VLLM-SQ keeps "
        "8 bits, VLLM-S, Swapping and LMK keep float16; VLLM-S and VLLM-SQ write blocks when their memory is "
        "needed, Swapping whole contexts, and LMK drops them. The ratios compare each side's "
        "mean over the switches of all traces with ours; switch_p95_ms is that of all our switches. "
        "active_contexts_ratio_at_25ms compares how many contexts of random traces have a mean latency of "
        "25 ms at most, interpolated, with the best baseline's. restart_ttft_ratio_vs_recompute_* continue a "
        f"context in a new process, {repeats} times, whose files are not in memory, and compare the median "
        "time to the first token with that of the same prompt computed; "
        "restart_ttft_ratio_vs_llama_cpp_restore is llama.cpp's (xllamacpp, its KV cache in float16), from "
        "its restored slot, over ours, the least of all lengths. inference_slowdown_pct compares requests "
        "one after the other, whose contexts are stored meanwhile, with requests whose contexts are not. "
        "recompute_max_abs_diff is the largest difference of a key or value in float32 after every second "
        "chunk was lost. poison_free_completions is the share of answers after each damage that equal those "
        "of a process without contexts. crash_points_tried counts processes killed while they store "
        "contexts. density_overhead_pct compares the time to the first token of prompts whose density is "
        "measured and is not. compressed_ppl_increase_pct is that of the second halves of texts, after first "
        "halves that the runtime has stored with context_compression=0.5 (all bytes counted, over those at "
        "8 bits) and that are decoded again; static levels go the same way. compressed_bfcl_loss_points "
        "compares the exact calls of BFCL's tasks with prompts that are computed, and with prompts that were "
        f"stored so and loaded. Left out: {omitted or 'nothing'}."
    )
