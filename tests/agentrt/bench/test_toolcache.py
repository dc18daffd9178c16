from __future__ import annotations

import pytest

from agentrt.bench import toolcache


def test_the_bench_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolcache, "_SIZES", {True: (2, 2)})
    monkeypatch.setattr(toolcache, "REASONING_TOKENS", 60)
    monkeypatch.setattr(toolcache, "LATENCIES", {"short": 0.0, "long": 0.2})
    told: list[str] = []
    report = toolcache.run(quick=True, workloads=None, progress=told.append)
    assert told
    figures = report.figures
    assert figures["tokens_identical"] == 1
    assert figures["o2_tokens_per_forward"] > 5  # tools that take no time are always there before the call
    assert {
        "eq6_attainment",
        "extra_time_saved_pct_over_client_side",
        "o3_reentry_ms_saved",
        "throughput_ratio_m8",
        "server_overhead_ms_p50",
        "stream_ttft_overhead_ms_p50",
    } <= set(figures)
    sides = report.tables[0]
    assert [row[:2] for row in sides.rows[:4]] == [
        ("short", side) for side in ("vanilla", "prefix-cached", "client-side", "engine-side")
    ]
    assert sides.rows[3][4] == 1.0
