"""Tasks and their tools, drafts of a chosen quality, and what an agent reads from a streamed answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.bench.toolcache import tasks as tools
from agentrt.bench.toolcache.agents import Done, _Answer
from agentrt.bench.toolcache.tasks import Task, tasks_of
from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.errors import WorkloadNotFoundError

from .bfcl import write_bfcl

TASKS = [Task(f"go to {n}", ToolCall("cd", {"folder": n}), f"in {n}", 0.0, [], 0) for n in range(40)]


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


def test_a_whole_number_is_written_without_a_fraction(tmp_path: Path) -> None:
    """As models write it: 1500.0 would be another call."""
    write_bfcl(tmp_path, 1, depth=2.0)
    (task,) = tasks_of(tmp_path, 1, 0.5, "short 0", 800)
    assert repr(task.call.arguments["depth"]) == "2"
    assert json.dumps(task.tools).count("2.0") == 0


@pytest.mark.parametrize("recorded", [True, False])
def test_seeds_draw_other_tasks_and_latencies(tmp_path: Path, recorded: bool) -> None:
    write_bfcl(tmp_path, 30)
    folder = tmp_path if recorded else None
    drawn = [tasks_of(folder, 5, 0.5, seed, 800) for seed in ("short 0", "short 0", "short 1")]
    assert drawn[0] == drawn[1]
    assert {task.prompt for task in drawn[0]}.isdisjoint(task.prompt for task in drawn[2])
    assert {task.latency_s for task in drawn[0]}.isdisjoint(task.latency_s for task in drawn[2])


def drafted(predictor: tools.ChancePredictor, *messages: dict[str, str]) -> list[ToolCall]:
    async def read() -> list[ToolCall]:
        return [call async for call in predictor.drafts(DraftRequest(messages, []))]

    return asyncio.run(read())


def test_alpha_is_the_share_of_right_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "DRAFT_S", 0.0)

    def right(alpha: float, seed: str) -> list[bool]:
        predictor = tools.ChancePredictor(TASKS, alpha, seed)
        drafts = [drafted(predictor, {"role": "user", "content": task.prompt}) for task in TASKS]
        return [made == [task.call] for made, task in zip(drafts, TASKS, strict=True)]

    assert all(right(1.0, "a"))
    assert not any(right(0.0, "a"))
    half = right(0.5, "a")
    assert 10 < sum(half) < 30
    assert half == right(0.5, "a") != right(0.5, "b")
    # A draft that begins like the right call would be verified in part.
    predictor = tools.ChancePredictor(TASKS, 0.0, "a")
    (wrong,) = drafted(predictor, {"role": "user", "content": TASKS[0].prompt})
    assert wrong == ToolCall("cd", {"folder": "another"})
    history = ({"role": "user", "content": TASKS[0].prompt}, {"role": "tool", "content": "in 0"})
    assert drafted(predictor, *history) == []


def test_tools_return_their_tasks_output_and_take_any_arguments() -> None:
    world = tools.TaskTools([*TASKS, Task("b", ToolCall("cd", {}), "in b", 0.0, [], 0)])
    assert asyncio.run(world.run("cd", {"folder": 7})) == "in 7"
    assert asyncio.run(world.run("cd", {})) == "in b"
    assert "error" in asyncio.run(world.run("cd", {"to": "nowhere"}))


def delta(arguments: str | None = None, content: str | None = None, answered: bool = False) -> Any:
    function = SimpleNamespace(name="get_weather", arguments=arguments)
    calls = None if arguments is None else [SimpleNamespace(id="call", function=function)]
    extra = {"tool_results": [{}]} if answered else {}
    return SimpleNamespace(tool_calls=calls, content=content, model_extra=extra)


def test_a_second_call_behind_the_answered_one_is_left_alone() -> None:
    done = Done()
    answer = _Answer(done, 0.0)
    for number, each in enumerate((delta('{"city": '), delta('"Oslo"}'), delta(answered=True)), 1):
        answer._read_delta(each, float(number))
    answer._read_delta(delta('{"city": "Rome"}'), 4.0)
    answer._read_delta(delta(content="Rain."), 5.0)
    assert done.arguments == '{"city": "Oslo"}'
    assert answer.call is None
    assert done.transcript == ("get_weather", '{"city": "Oslo"}', "Rain.")
