from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.bench.toolcache.tasks import tasks_of
from agentrt.errors import WorkloadNotFoundError

from .bfcl import write_bfcl


def test_tasks_of_bfcl_admit_their_call_alone(tmp_path: Path) -> None:
    write_bfcl(tmp_path, 3)
    short, long = (
        tasks_of(tmp_path, 3, most_s, seed, 800) for most_s, seed in ((0.5, "short 0"), (3.0, "long 0"))
    )
    assert len({task.prompt for task in (*short, *long)}) == 6
    assert all(0 <= task.latency_s <= 0.5 for task in short)
    for task in short:
        (tool,) = task.tools
        number = int(task.prompt.split(":")[0].removeprefix("task_"))
        assert tool["function"]["name"] == task.call.name == "cd"
        assert tool["function"]["parameters"]["properties"] == {
            "folder": {"enum": [f"folder {number}"]},
            "depth": {"enum": [number]},
        }
    with pytest.raises(WorkloadNotFoundError):
        tasks_of(tmp_path, 4, 0.5, "short 0", 800)


def test_seeds_draw_other_tasks_and_latencies(tmp_path: Path) -> None:
    write_bfcl(tmp_path, 30)
    drawn = [tasks_of(tmp_path, 5, 0.5, seed, 800) for seed in ("short 0", "short 0", "short 1")]
    assert drawn[0] == drawn[1]
    assert {task.call.arguments["depth"] for task in drawn[0]} != {
        task.call.arguments["depth"] for task in drawn[2]
    }
    assert {task.latency_s for task in drawn[0]}.isdisjoint(task.latency_s for task in drawn[2])
