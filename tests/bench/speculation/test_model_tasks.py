"""BFCL's tasks as agents' requests, and a main model that is recorded and replayed."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from agentrt.bench.speculation.agent_runs import agent_on, ask
from agentrt.bench.speculation.model_tasks import ToolLatency, bfcl_tasks, model_tasks
from agentrt.bench.speculation.replayed_chat import Recording
from agentrt.errors import NotRecordedError, WorkloadNotFoundError
from agentrt.testing import run_in_virtual_time
from agentrt.tools.speculable import speculable_tool
from tests.adapters.doubles import ScriptedChat


def folder(path: Path, *names: str) -> Path:
    tools = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": PARAMETERS}}
        for name in names
    ]
    call = {"name": names[0], "arguments": {"q": "a"}}
    record = {"messages": [{"role": "user", "content": "go"}], "tools": tools, "ground_truth": [call]}
    (path / "bfcl_single.jsonl").write_text(json.dumps(record) + "\n")
    return path


PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


def test_a_bfcl_task_has_its_own_tools(tmp_path: Path) -> None:
    (task,) = model_tasks(folder(tmp_path, "look", "find"), 1)
    assert task.request == "go"
    look, find = task.tools(ToolLatency())
    assert [look.name, find.name] == ["look", "find"]
    assert all(map(speculable_tool, (look, find)))
    call = {"type": "tool_call", "id": "1", "name": "look", "args": {"q": "a"}}
    assert json.loads(asyncio.run(look.ainvoke(call)).content) == {"done": "look", "q": "a"}


def test_every_second_request_has_the_ten_tools_and_seeds_draw_others(tmp_path: Path) -> None:
    tasks = model_tasks(folder(tmp_path, "look", "find"), 2)
    assert [task.source for task in tasks] == ["BFCL", "ten tools"]
    first, second = ([task.request for task in model_tasks(None, 8, seed=seed)] for seed in (0, 1))
    assert first != second
    assert len(set(first)) == 8


def test_bfcls_tasks_alone(tmp_path: Path) -> None:
    assert [task.source for task in bfcl_tasks(folder(tmp_path, "look", "find"), 1, random.Random(0))] == [
        "BFCL"
    ]
    with pytest.raises(WorkloadNotFoundError, match="1 fitting tasks, and 2 are needed"):
        bfcl_tasks(tmp_path, 2, random.Random(0))


def test_of_the_ten_tools_those_that_write_are_not_speculable() -> None:
    tools = model_tasks(None, 1)[0].tools(latency := ToolLatency())
    assert {tool.name for tool in tools if speculable_tool(tool) is None} == {"create_note", "add_event"}
    assert len(tools) == 10
    latency.seconds = 30.0

    async def use() -> float:
        await tools[0].ainvoke({"query": "roof"})
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(use) == 30.0


@pytest.mark.parametrize("names", [["look"], ["look", "dotted.name"], list("abcde")])
def test_other_tasks_are_left_out(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(WorkloadNotFoundError, match="0 fitting tasks"):
        model_tasks(folder(tmp_path, *names), 1)


def test_a_replayed_model_answers_as_recorded_in_the_recorded_time(tmp_path: Path) -> None:
    (task,) = model_tasks(folder(tmp_path, "look", "find"), 1)

    async def main() -> None:
        recording, tools = Recording(), task.tools(ToolLatency())
        live = ScriptedChat(script=[[("look", {"q": "a"})]], delay=3.0)
        recorded = await ask(agent_on(live, tools), task.request, recording)
        began = asyncio.get_running_loop().time()
        assert began == 6.0  # a call, and the answer
        replayed = await ask(agent_on(recording.replay(), tools), task.request)
        assert asyncio.get_running_loop().time() - began == pytest.approx(6.0)
        assert replayed.transcript == recorded.transcript
        assert replayed.tool_calls == 1
        with pytest.raises(NotRecordedError):
            await recording.reply([HumanMessage("something else")])

    run_in_virtual_time(main)
