from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.figures import draw
from agentrt.bench.common.repetitions import Seeds
from agentrt.bench.toolcache import given, tools
from agentrt.bench.toolcache import main as toolcache
from agentrt.errors import BenchModelError

from .bfcl import write_bfcl

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("prediction_is_free")]


@pytest.mark.parametrize("bfcl", [False, True])
def test_the_bench_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bfcl: bool) -> None:
    if bfcl:
        write_bfcl(tmp_path, 2)
    size = toolcache.Size(1, {"short": 2, "long": 1}, requests=2, throughput_tasks=2, alphas=(1.0,))
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
    assert figures["o2_tokens_per_forward"] > 5  # tools that take no time are always there before the call
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
    sides, optimizations, _, spread = report.tables
    assert [row[:2] for row in sides.rows[:4]] == [
        ("short", side) for side in ("vanilla", "prefix-cached", "client-side", "engine-side")
    ]
    assert sides.rows[3][-1] == 1.0
    # The switches work: only O3 answers calls, and only right drafts are answered.
    answered = {(row[0], row[1]): row[-1] for row in optimizations.rows}
    assert answered == {
        (1.0, "client-side"): 0.0,
        (1.0, "engine-side, both off"): 0.0,
        (1.0, "engine-side, O2 only"): 0.0,
        (1.0, "engine-side, O3 only"): 1.0,
        (1.0, "engine-side"): 1.0,
        (0.0, "client-side"): 0.0,
        (0.0, "engine-side"): 0.0,
    }
    assert {row[-1] for row in spread.rows} == {2}  # repetitions
    (drawn,) = draw(report, tmp_path)
    picture = drawn.read_text(encoding="utf-8")
    assert all(word in picture for word in ("prefix-cached", "client-side", "engine-side", "short", "long"))


def test_a_given_model_makes_its_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    size = toolcache.Size(1, {"short": 2, "long": 1}, requests=2, throughput_tasks=2, alphas=(1.0,))
    monkeypatch.setattr(toolcache, "GIVEN_SIZES", {True: size})
    monkeypatch.setattr(toolcache, "LATENCIES", {"short": 0.0, "long": 0.2})
    monkeypatch.setattr(tools, "DRAFT_S", 0.0)
    monkeypatch.setattr(given, "_REASON", "")  # nano does not reason
    monkeypatch.setattr(given, "_CITIES", ("Oslo", "Rome", "Bergen", "Porto", "Turin", "Ljubljana"))
    report = toolcache.run(
        quick=True, workloads=None, progress=lambda line: None, model="nano", drafts=["nano-draft"]
    )
    figures = report.figures
    assert figures["tokens_identical"] == 1
    assert 0 < figures["call_share"] <= 1
    assert 0 <= figures["draft_right_share"] <= 1
    assert figures["draft_s"] > 0
    # nano writes nothing before a call.
    assert not {"eq6_attainment", "o2_call_ms_saved", "reasoning_slowdown_pct"} & figures.keys()
    *_, drafts = report.tables
    assert [row[:2] for row in drafts.rows] == [
        ("nano-draft", "client-side"),
        ("nano-draft", "engine-side"),
    ]
    assert "questions about the weather" in report.method


def test_a_model_that_calls_no_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_call(*asked: Any) -> None:
        return None

    monkeypatch.setattr(given.GivenTasks, "_task", no_call)
    with pytest.raises(BenchModelError, match="is trained to call tools"):
        toolcache.run(quick=True, workloads=None, progress=lambda line: None, model="nano")
