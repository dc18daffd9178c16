"""The demo's result as named figures."""

from __future__ import annotations

from .run import Result


def figures_of(result: Result) -> dict[str, float]:
    """Return the figures of ``agentrt demo --json``."""
    comparison, counts = result.comparison, result.comparison.counts
    plain, ours = comparison.waited_s
    return {
        "waiting_saved_pct": 100 * comparison.saved_share,
        "transcripts_equal": float(not comparison.different),
        "reactive_ttft_ratio_vs_fcfs": result.ttft_ratio,
        "waited_plain_s": plain,
        "waited_agentrt_s": ours,
        "requests_different": len(comparison.different),
        "requests_unanswered": len(comparison.unanswered),
        "calls_claimed": counts.hits,
        "calls_missed": counts.misses,
        "speculations_wasted": counts.wasted,
        "ahead_kept": counts.ahead_kept,
        "ahead_wasted": counts.ahead_wasted,
        "reactive_ttft_ms": 1e3 * result.agentrt.median_s,
        "reactive_ttft_ms_fcfs": 1e3 * result.fcfs.median_s,
    }
