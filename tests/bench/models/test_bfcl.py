"""BFCL's tasks: exact calls in any order, each argument among its accepted values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.models.bfcl import FILE, ExpectedCall, Task, load_tasks
from agentrt.calls import ToolCall
from agentrt.errors import WorkloadNotFoundError


def expected(**acceptable: list[Any]) -> ExpectedCall:
    return ExpectedCall(name="f", acceptable=acceptable)


@pytest.mark.parametrize(
    ("acceptable", "arguments", "matches"),
    [
        ({"x": [1]}, {"x": 1}, True),
        ({"x": [1]}, {"x": 1.0}, True),
        ({"x": [1]}, {"x": True}, False),
        ({"x": [1]}, {"x": "1"}, False),
        ({"x": [1]}, {}, False),
        ({"x": [1, ""]}, {}, True),
        ({"x": [1]}, {"x": 1, "y": 2}, False),
        ({"x": ["New York, NY"]}, {"x": "new york ny"}, True),
        ({"x": [["a", "b"]]}, {"x": ["A", "b"]}, True),
        ({"x": [["a", "b"]]}, {"x": ["b", "a"]}, False),
        ({"x": [{"y": [1, 2], "z": ["", 3]}]}, {"x": {"y": 2}}, True),
        ({"x": [{"y": [1, 2]}]}, {"x": {"y": 3}}, False),
    ],
)
def test_a_call_matches_if_every_argument_is_accepted(
    acceptable: dict[str, list[Any]], arguments: dict[str, Any], matches: bool
) -> None:
    assert expected(**acceptable).matches(ToolCall("f", arguments)) is matches
    assert not expected(**acceptable).matches(ToolCall("g", arguments))


def task(*calls: ExpectedCall, category: str = "simple_python", id: str = "t") -> Task:
    return Task(id=id, category=category, messages=[], tools=[], ground_truth=list(calls))


def test_a_task_is_solved_by_exactly_its_calls_in_any_order() -> None:
    two = task(expected(x=[1]), expected(x=[2]))
    one, other = ToolCall("f", {"x": 1}), ToolCall("f", {"x": 2})
    assert two.solved_by([other, one])
    assert not two.solved_by([one])
    assert not two.solved_by([one, one])
    assert not two.solved_by([one, other, one])
    assert task().solved_by([])
    assert not task().solved_by([one])


def test_tasks_are_spread_over_each_group(tmp_path: Path) -> None:
    tasks = [task(id=f"{kind}{n}", category=kind) for kind in ("simple_python", "parallel") for n in range(9)]
    lines = [json.dumps(each.model_dump()) for each in tasks]
    (tmp_path / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = {"simple": 3, "parallel": 3, "irrelevance": 3}
    groups = load_tasks(tmp_path, counts)
    assert [each.id for each in groups["simple"]] == ["simple_python0", "simple_python3", "simple_python6"]
    assert len(groups["parallel"]) == 3
    assert groups["irrelevance"] == []
    with pytest.raises(WorkloadNotFoundError):
        load_tasks(tmp_path / "nowhere", counts)
