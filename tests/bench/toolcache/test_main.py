from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.bench.common.figures import draw
from agentrt.bench.toolcache import main as toolcache
from agentrt.bench.toolcache.tasks import tasks_of
from agentrt.errors import WorkloadNotFoundError

pytestmark = pytest.mark.bench


def write_bfcl(folder: Path, count: int) -> None:
    """As many tasks of one call each."""
    lines = []
    for number in range(count):
        call = {"name": "cd", "arguments": {"folder": f"folder {number}", "depth": number}}
        turn = {"messages": [{"role": "user", "content": "Go there."}], "ground_truth": [call]}
        lines.append(json.dumps({"id": f"task_{number}", "turns": [turn]}) + "\n")
    (folder / "bfcl_multi_turn.jsonl").write_text("".join(lines), encoding="utf-8")


def test_tasks_of_bfcl_admit_their_call_alone(tmp_path: Path) -> None:
    write_bfcl(tmp_path, 3)
    (_, short), (_, long) = tasks_of(tmp_path, 3, 0.5, 0), tasks_of(tmp_path, 3, 3.0, 1)
    assert len({task.prompt for task in (*short, *long)}) == 6
    assert all(0 <= task.latency_s <= 0.5 for task in short)
    for task in short:
        (tool,) = task.tools
        number = int(task.prompt.split(":")[0].removeprefix("task_"))
        assert tool["function"]["name"] == "cd"
        assert tool["function"]["parameters"]["properties"] == {
            "folder": {"enum": [f"folder {number}"]},
            "depth": {"enum": [number]},
        }
    with pytest.raises(WorkloadNotFoundError):
        tasks_of(tmp_path, 4, 0.5, 0)


@pytest.mark.parametrize("bfcl", [False, True])
def test_the_bench_on_next_to_no_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bfcl: bool) -> None:
    if bfcl:
        write_bfcl(tmp_path, 2)
    monkeypatch.setattr(toolcache, "_SIZES", {True: (2, 2)})
    monkeypatch.setattr(toolcache, "REASONING_TOKENS", 60)
    monkeypatch.setattr(toolcache, "LATENCIES", {"short": 0.0, "long": 0.2})
    told: list[str] = []
    report = toolcache.run(quick=True, workloads=tmp_path if bfcl else None, progress=told.append)
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
    (drawn,) = draw(report, tmp_path)
    picture = drawn.read_text(encoding="utf-8")
    assert all(word in picture for word in ("prefix-cached", "client-side", "engine-side", "short", "long"))
