"""BFCL's tasks on two servers, and what bench outside refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.models.bfcl import is_held_back
from agentrt.bench.outside import main
from agentrt.bench.outside.agentperf import AgentPerf
from agentrt.bench.outside.calls import load_groups, measure_calls
from agentrt.bench.outside.main import run
from agentrt.calls import ToolCall
from agentrt.errors import ConfigurationError, WorkloadNotFoundError
from tests.bench.workload_folder import WEATHER

pytestmark = pytest.mark.bench

ASKED = {"messages": [{"role": "user", "content": "What is the weather in Oslo?"}], "tools": [WEATHER]}
OSLO = {"name": "get_weather", "arguments": {"city": "Oslo"}}
BERGEN = {"name": "get_weather", "arguments": {"city": "Bergen"}}
TURNS = [
    {"messages": [{"role": "user", "content": "Oslo?"}], "ground_truth": [OSLO, OSLO]},
    {"messages": [{"role": "user", "content": "And Bergen?"}], "ground_truth": [BERGEN, OSLO]},
    {"messages": [{"role": "user", "content": "And there?"}], "ground_truth": []},
]


@pytest.fixture
def workloads(tmp_path: Path) -> Path:
    answer = [{"name": "get_weather", "acceptable": {"city": ["Oslo"]}}]
    single = [
        {**ASKED, "id": f"{kind}_{number}", "category": kind, "ground_truth": expected}
        for kind, expected in (("multiple", answer), ("parallel", answer), ("irrelevance", []))
        for number in range(8)
    ]
    conversation = {"category": "multi_turn_base", "tool_classes": ["Weather"], "turns": TURNS}
    several = [{**conversation, "id": f"base_{n}", "group": f"multi_turn_{n}"} for n in range(12)]
    several += [{**conversation, "id": "two", "group": "two", "tool_classes": ["Weather", "Weather"]}]
    several += [{**conversation, "id": "func", "group": "func", "category": "multi_turn_miss_func"}]
    for name, records in (("bfcl_single", single), ("bfcl_multi_turn", several)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    (tmp_path / "common").mkdir()
    other = {"type": "function", "function": {"name": "excluded", "parameters": {}}}
    tools = json.dumps({"Weather": [WEATHER, other]})
    (tmp_path / "common" / "bfcl_multi_turn_tools.json").write_text(tools, encoding="utf-8")
    return tmp_path


def test_sets_have_no_task_in_common(workloads: Path) -> None:
    groups = load_groups(workloads, {False: 2, True: 3})
    for (group, held_back), tasks in groups.items():
        assert 0 < len(tasks) <= (3 if held_back else 2)
        names = [task.id.replace("base", "multi_turn") for task in tasks]
        assert {is_held_back(name) for name in names} == {held_back}, group
    assert {task.id for held_back in (False, True) for task in groups["multi_turn", held_back]} <= {
        f"base_{number}" for number in range(12)
    }


def test_a_turn_is_asked_after_the_right_calls_for_those_before_it(workloads: Path) -> None:
    first, second, third = load_groups(workloads, {True: 3})["multi_turn", True]
    assert [message["role"] for message in second.messages] == [
        *("user", "assistant", "tool", "assistant", "tool", "user"),
    ]
    oslo, bergen = (ToolCall("get_weather", {"city": city}) for city in ("Oslo", "Bergen"))
    assert first.solved_by([oslo])
    assert second.solved_by([bergen, oslo])
    assert second.solved_by([bergen])
    assert not second.solved_by([oslo, bergen])
    assert not second.solved_by([])
    assert third.solved_by([])
    assert not third.solved_by([oslo])


class FakeServer:
    """Calls with these arguments, whatever is asked, or says the call as text."""

    def __init__(self, made: dict[str, Any]) -> None:
        self.made = made
        self.process = self

    def call(self, method: str) -> str:
        assert method == "call_format"
        return "hermes"

    def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["temperature"] == 0
        return self.made


def test_shares_and_their_difference_are_of_the_same_tasks(workloads: Path) -> None:
    arguments = json.dumps(OSLO["arguments"])
    ours: Any = FakeServer({"tool_calls": [{"function": {**OSLO, "arguments": arguments}}]})
    peer: Any = FakeServer({"content": f"```json\n{json.dumps(OSLO)}\n```"})
    groups = load_groups(workloads, {False: 1, True: 2})
    figures, table = measure_calls({"agentrt": ours, "llama_cpp": peer}, groups, lambda line: None)
    assert figures["bfcl_multiple_exact"].value == 1.0
    assert figures["bfcl_multiple_exact"].samples == 2, "of held-back tasks"
    assert figures["bfcl_irrelevance_exact"].value == 0.0
    # llama.cpp makes no call: right in both tasks of irrelevance alone, of eight.
    assert figures["bfcl_exact_difference_vs_llama_cpp"].value == (5 - 2) / 8
    assert figures["bfcl_exact_difference_vs_llama_cpp_reread"].value == 0.0
    assert [row[:3] for row in table.rows][:2] == [
        ("multiple", "development", 1),
        ("parallel", "development", 1),
    ]
    assert {row[1] for row in table.rows} == {"development", "held back"}


def test_it_needs_a_model_and_something_to_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "AgentPerf", lambda: AgentPerf(tmp_path))
    with pytest.raises(ConfigurationError, match="needs a model"):
        run(quick=True, workloads=None, progress=print)
    with pytest.raises(ConfigurationError, match=r"nothing to measure.*--agentperf.*--workloads"):
        run(quick=True, workloads=None, progress=print, model="nano")
    with pytest.raises(WorkloadNotFoundError):
        run(quick=True, workloads=tmp_path, progress=print, model="nano")
