from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.common.figures import draw
from agentrt.bench.common.report import Seeds
from agentrt.bench.toolcache import main as toolcache
from agentrt.bench.toolcache import tasks as tools

from .bfcl import write_bfcl

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("prediction_is_free")]


@pytest.mark.parametrize("bfcl", [False, True])
def test_the_bench_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bfcl: bool) -> None:
    if bfcl:
        write_bfcl(tmp_path, 2)
    size = toolcache.Size(1, {"short": 2, "long": 1}, requests=2, throughput_tasks=2)
    monkeypatch.setattr(toolcache, "SIZES", {True: size})
    monkeypatch.setattr(toolcache, "REASONING_TOKENS", 200)
    monkeypatch.setattr(toolcache, "LATENCIES", {"short": 0.0, "long": 0.2})
    monkeypatch.setattr(tools, "DRAFT_S", 0.0)
    told: list[str] = []
    report = toolcache.run(
        quick=True, workloads=tmp_path if bfcl else None, progress=told.append, seeds=Seeds(2, 3)
    )
    assert [line.split(",")[0] for line in told] == ["repetition with seed 3", "repetition with seed 4"]
    figures = report.figures
    assert figures["tokens_identical"] == 1
    assert {
        "eq6_attainment",
        "eq6_attainment_over_client_side",
        "extra_time_saved_pct_over_client_side",
        "engine_alpha0_slowdown_pct",
        "reasoning_slowdown_pct",
        "o2_call_ms_saved",
        "o3_reentry_ms_saved",
        "throughput_ratio_m8",
        "server_overhead_ms_p50",
        "stream_ttft_overhead_ms_p50",
    } <= set(figures)
    sides, spread = report.tables
    assert [row[:2] for row in sides.rows[:4]] == [
        ("short", side) for side in ("vanilla", "prefix-cached", "client-side", "engine-side")
    ]
    assert [row[-1] for row in sides.rows[:4]] == [0, 0, 0, 1], "only the engine side is answered there"
    assert {row[-1] for row in spread.rows} == {2}  # repetitions
    (drawn,) = draw(report, tmp_path)
    picture = drawn.read_text(encoding="utf-8")
    assert all(word in picture for word in ("prefix-cached", "client-side", "engine-side", "short", "long"))
