"""The figures of models that are given, here the embedded ones, of one part alone and of the README."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentrt.bench.common.parts import SpeculationPart
from agentrt.bench.common.report import Seeds
from agentrt.bench.documentation.drawings import draw
from agentrt.bench.speculation import one_run
from agentrt.bench.speculation.main import run

# The models are so fast that a busy machine would decide whether drafts are worth making.
pytestmark = [
    pytest.mark.bench,
    pytest.mark.real_model,
    pytest.mark.usefixtures("prediction_is_free", "answers_wait_for_drafts"),
]


def test_the_figures_of_given_models(tmp_path: Path) -> None:
    said: list[str] = []
    report = run(
        quick=True, workloads=None, progress=said.append, seeds=Seeds(2), model="nano", drafts=["nano-draft"]
    )
    figures = report.figures
    assert figures["transcripts_equal"].value == 1.0
    assert figures["requests_with_calls"].value == 4.0, "each seed has two requests of its own"
    assert 0 < figures["claim_rate"].value <= 1
    assert 0 < figures["claim_rate_replayed_main"].value <= 1
    assert all(each.has_interval for each in figures.values())
    assert "nano-draft" in report.method
    titles = [table.title for table in report.tables]
    for figure in ("Figure 6", "Figures 5 and 7", "Figure 8"):
        assert any(figure in title for title in titles)
    for table in report.tables:
        for row in table.rows:
            cells = dict(zip(table.columns, row, strict=True))
            assert cells["saved %"].low <= cells["saved %"].value <= cells["saved %"].high  # type: ignore[union-attr, operator]
            assert "requests" in cells or str(cells["drafts"]).startswith("nano-draft")
    by_latency = next(table for table in report.tables if "Figure 6" in table.title)
    assert {str(row[0]).rpartition(", ")[2] for row in by_latency.rows} == {
        "main model replayed",
        "main model on the same machine",
    }
    by_requests = next(table for table in report.tables if "claims by requests" in table.title)
    assert [row[:2] for row in by_requests.rows] == [("ten tools", 4)]
    assert [path.name for path in draw(report, tmp_path)] == [
        "real-models-figure-5-throughput.svg",
        "real-models-figure-6-time-saved.svg",
        "real-models-figure-7-cost.svg",
        "real-models-figure-8-sides.svg",
    ]


def test_both_runs_make_the_same_calls() -> None:
    plain = asyncio.run(one_run.run("nano", "off", tool_s=0.01))
    speculating = asyncio.run(one_run.run("nano", "on", tool_s=0.01))
    tools = [("search_web",), ("read_page",), ("get_weather",)]
    assert [turn.tools for turn in plain.turns] == tools
    assert [turn.tools for turn in speculating.turns] == tools
    assert (plain.total.claims, plain.total.misses) == (0, 3)
    assert speculating.total.claims + speculating.total.misses == 3


def test_a_part_gives_its_own_figures_only() -> None:
    parts = [SpeculationPart.OVERHEAD]
    report = run(quick=True, workloads=None, progress=lambda line: None, parts=parts)
    assert "sdk_overhead_claimed_turn_ms_p50" in report.figures
    assert not {"model_attainment", "transcripts_equal"} & report.figures.keys()
