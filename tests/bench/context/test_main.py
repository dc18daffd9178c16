"""The context bench on next to no work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentrt.bench.common.parts import ContextPart
from agentrt.bench.common.process import SideProcess
from agentrt.bench.context import main as context
from agentrt.bench.context.main import Size, run
from agentrt.bench.context.sweeps import TraceSize
from agentrt.bench.documentation.drawings import draw
from agentrt.errors import ModelNotFoundError
from tests.fixed_costs import make_with_fixed_costs

pytestmark = [pytest.mark.bench, pytest.mark.real_model]

SMALL = Size(TraceSize((3,), 3, 160, 2.5, slow_disk=(3, 3), groups=(2,)), (200,), 2, 2, 2, 128, 96)


@pytest.fixture
def loads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored is loaded, also in processes of the bench, however quickly it could be computed."""
    start = SideProcess.__init__

    def with_fixed_costs(process: SideProcess, make: Callable[..., object], *arguments: object) -> None:
        start(process, make_with_fixed_costs, make, *arguments)

    monkeypatch.setattr(SideProcess, "__init__", with_fixed_costs)


@pytest.mark.usefixtures("loads_only")
def test_every_figure_of_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "SIZES", {True: SMALL})
    lines: list[str] = []
    report = run(quick=True, workloads=None, progress=lines.append)
    figures = report.figures
    assert figures.keys() >= {
        "switch_latency_ratio_vs_vllm_sq_mean", "switch_latency_ratio_vs_vllm_s_mean",
        "switch_latency_ratio_vs_swapping_mean", "switch_latency_ratio_vs_lmk_mean",
        "restart_ttft_ratio_vs_recompute_0k_from_process_start", "inference_slowdown_pct",
        "compressed_ppl_increase_pct", "compressed_ppl_increase_pct_held_back",
    }  # fmt: skip
    assert [name for name, each in figures.items() if not each.has_interval] == []
    tables = {table.title: table for table in report.tables}
    latency = tables["switching latency in ms (LLMS, Fig. 9)"]
    assert {row[:3] for row in latency.rows} >= {("random", 3, "ours"), ("random", 3, "LMK")}
    assert [row[0] for row in tables["switching latency in ms on a slow disk (LLMS, Fig. 10)"].rows] == [
        "ours", "VLLM-SQ", "ours, compressed in memory"
    ]  # fmt: skip
    chunks = tables["switching latency in ms by tokens of a chunk (LLMS, Fig. 14)"].rows
    assert [row[0] for row in chunks] == ["64 tokens"]
    restart, from_process = tables["time to the first token after a restart, in s"].rows
    assert (restart[1], from_process[1]) == ("request", "process")
    assert restart[6] >= 96, "tokens that were restored"
    accuracy = tables["accuracy by stored bits (LLMS, Fig. 12)"]
    assert [row[2] for row in accuracy.rows] == 2 * [
        "as in the arena", "4 bits", "2 bits", "by density, half the bytes",
    ]  # fmt: skip
    assert "ours, random, 3 contexts" in lines
    drawn = draw(report, tmp_path)
    assert [path.name for path in drawn] == ["llms-figure-9.svg", "restart.svg"]
    assert "VLLM-SQ" in drawn[0].read_text()


def test_one_part_is_measured_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(context, "SIZES", {True: replace(SMALL, repeats=1)})
    report = run(quick=True, workloads=None, progress=lambda line: None, parts=[ContextPart.RESTARTS])
    assert [table.title for table in report.tables] == ["time to the first token after a restart, in s"]
    assert [path.name for path in draw(report, tmp_path)] == ["restart.svg"]
    assert set(report.figures) == {
        "restart_ttft_ratio_vs_recompute_0k", "restart_ttft_ratio_vs_recompute_0k_from_process_start"
    }  # fmt: skip


def test_a_wrong_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        run(
            quick=True,
            workloads=None,
            progress=lambda line: None,
            models=["nano", str(tmp_path / "none.gguf")],
        )
