"""The drafting bench on next to no work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.documentation import drawings as pictures
from agentrt.bench.drafting import main as drafting
from agentrt.bench.drafting.comparison import GENAI_LOOKUP
from agentrt.bench.drafting.extremes import share_of_identical_answers
from agentrt.bench.drafting.main import Size, run
from agentrt.bench.drafting.prompt_sets import Prompt
from agentrt.bench.drafting.sides import CALIBRATED, OURS, REUSING, SAM, VANILLA, Ours, Vanilla
from agentrt.errors import ModelNotFoundError
from tests.bench.workload_folder import WEATHER as TOOL
from tests.bench.workload_folder import write_apibank

pytestmark = [pytest.mark.bench, pytest.mark.real_model]

SMALL = Size(2, 2, 12, 3, 8, 2, 8, 8, 1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "SIZES", {True: SMALL})
    monkeypatch.setattr(drafting, "BATCH", 2)


def workloads(folder: Path) -> Path:
    task: dict[str, Any] = {"id": "a", "category": "simple_python", "tools": [TOOL], "ground_truth": []}
    task["messages"] = [{"role": "user", "content": "What is the weather in Oslo?"}]
    (folder / "bfcl_single.jsonl").write_text(
        "\n".join(
            json.dumps({**task, "category": kind}) for kind in ("simple_python", "multiple", "parallel")
        ),
        encoding="utf-8",
    )
    steps = [
        {"type": "user", "text": "What is on Friday?"},
        {"type": "tool", "tool": "QueryAgenda", "arguments": {"day": "Friday"}, "result": ["nothing"]},
        {"type": "reply", "text": "Nothing."},
    ]
    write_apibank(folder, [{"id": "x", "steps": steps}])
    return folder


def test_every_figure_of_a_small_run(tmp_path: Path) -> None:
    lines: list[str] = []
    report = run(quick=True, workloads=workloads(tmp_path), progress=lines.append)
    figures = report.figures
    assert figures["tokens_identical"].value == 1.0
    assert figures.keys() >= {
        "speedup_vs_vanilla_own_sets", "tool_call_speedup", "tokens_identical_at_default_precision",
        "slowest_set_vs_vanilla", "recurring_request_speedup", "undrafted_slowdown_pct",
        "batch8_drafting_ratio", "agent_turn_end_to_end_ratio", "draft_ms_p99_at_32k", "memory_overhead_mb",
        "npu_speedup_vs_vanilla", "npu_speedup_vs_retrieval", "npu_energy_ratio",
    }  # fmt: skip
    assert [name for name, each in figures.items() if not each.has_interval] == [
        "agent_turn_end_to_end_ratio"
    ]
    latencies, breakdown, simulated = report.tables
    assert [row[0] for row in simulated.rows][1:3] == ["retrieval", "+ calibration"]
    assert {VANILLA, SAM, "SuffixDecoding", GENAI_LOOKUP, OURS} < set(latencies.columns)
    assert [row[0] for row in latencies.rows] == ["calls", "reply", "edit"]
    drawn = [each.read_text(encoding="utf-8") for each in pictures.draw(report, tmp_path)]
    assert len(drawn) == 2
    assert all(name in picture for picture in drawn for name in ("reply", "edit"))
    assert [row[1] for row in breakdown.rows] == [VANILLA, OURS, CALIBRATED, REUSING] * 3
    assert {"summary is left out: spec_bench.jsonl is not in --workloads", "an agent's turns, x"} <= set(
        lines
    )


def test_a_wrong_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        run(quick=True, workloads=None, progress=lambda line: None, model=str(tmp_path / "none.gguf"))


class _Other(Vanilla):
    """A side that changes the answer: it ends the answer after its first tokens."""

    name = "other"

    def drafters(self, request: Any, own: Any) -> list[Any]:
        object.__setattr__(request, "max_total_tokens", len(request.prompt_token_ids) + 4)
        return []


def test_answers_that_drafts_change_are_seen() -> None:
    prompt = Prompt(({"role": "user", "content": "Hello! Hello! Hello!"},))
    sides: list[Any] = [Ours(), _Other()]
    shares = [share_of_identical_answers("nano", [prompt], side, 12, 2**26, print).value for side in sides]
    assert shares == [1.0, 0.0]
