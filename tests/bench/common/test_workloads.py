"""Recorded conversations, and files that hold none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.workloads import traced
from agentrt.errors import WorkloadFormatError, WorkloadNotFoundError
from tests.bench.workload_folder import has_workloads, write_apibank


def one(folder: Path, steps: list[dict[str, Any]], **more: Any) -> Any:
    write_apibank(folder, [{"id": "x", "steps": steps, **more}])
    (conversation,) = traced(folder)["apibank"]
    return conversation


def test_what_was_said_before_a_call_belongs_to_the_same_answer(tmp_path: Path) -> None:
    conversation = one(
        tmp_path,
        [
            {"type": "user", "text": "What is on Friday?"},
            {"type": "reply", "text": "Let me look."},
            {"type": "tool", "tool": "QueryAgenda", "arguments": {"day": "Friday"}, "result": ["nothing"]},
            {"type": "reply", "text": "Nothing."},
            {"type": "user", "text": "Then add lunch."},
            {"type": "tool", "tool": "AddAgenda", "arguments": {"what": "lunch", "hour": 12}},
        ],
    )
    assert [message["role"] for message in conversation.messages] == [
        *("user", "assistant", "tool", "assistant", "user", "assistant", "tool")
    ]
    assert conversation.messages[1]["content"] == "Let me look."
    assert conversation.messages[2]["content"] == '["nothing"]'
    turns = [(turn.history, [call.name for call in turn.calls]) for turn in conversation.turns]
    assert turns == [(1, ["QueryAgenda"]), (3, []), (5, ["AddAgenda"])]
    assert conversation.read_only == {"QueryAgenda"}
    offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in conversation.tools}
    assert offered["AddAgenda"]["properties"] == {"what": {"type": "string"}, "hour": {"type": "integer"}}
    assert offered["AddAgenda"]["required"] == ["hour", "what"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 2: the line: Invalid JSON"),
        ("[]", "line 2: the line: Input should be an object"),
        ('{"id": "x"}', "line 2: steps: Field required"),
        ('{"id": "x", "steps": [{"type": "tool", "arguments": 3}]}', r"line 2: steps.0.arguments: Input"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "apibank_traces.jsonl"
    path.write_text(json.dumps({"id": "good", "steps": []}) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(WorkloadFormatError, match=problem) as raised:
        traced(tmp_path)
    assert (raised.value.path, raised.value.line) == (str(path), 2)


def test_what_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadNotFoundError, match=r"Name the folder"):
        traced(tmp_path)
    (tmp_path / "apibank_traces.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(WorkloadFormatError, match="not UTF-8"):
        traced(tmp_path)
    (tmp_path / "apibank_traces.jsonl").unlink()
    (tmp_path / "tau_airline_traces.jsonl").write_text("")
    with pytest.raises(WorkloadNotFoundError, match=r"tau_tools.json"):
        traced(tmp_path)
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "tau_tools.json").write_text("{}")
    with pytest.raises(WorkloadFormatError, match=r"tau_tools.json, line 1: it holds no tools"):
        traced(tmp_path)


@pytest.mark.skipif(not has_workloads(), reason="the public workloads are not beside this checkout")
def test_the_public_workloads_load_whole() -> None:
    from tests.bench.workload_folder import WORKLOADS

    found = traced(WORKLOADS)
    assert {"tau", "apibank", "toolbench", "autodroid", "swe_agent"} <= found.keys()
    for conversations in found.values():
        for conversation in conversations:
            offered = {tool["function"]["name"] for tool in conversation.tools}
            assert conversation.read_only <= offered
            for turn in conversation.turns:
                answer = conversation.messages[turn.history]
                assert answer["role"] == "assistant"
                assert len(answer.get("tool_calls", ())) == len(turn.calls)
