from __future__ import annotations

import asyncio

import pytest

from agentrt.bench.toolcache import tasks as tools
from agentrt.bench.toolcache.tasks import Task
from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest

TASKS = [Task(f"go to {n}", ToolCall("cd", {"folder": n}), f"in {n}", 0.0, [], 0) for n in range(40)]


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "DRAFT_S", 0.0)


def drafted(predictor: tools.ChancePredictor, *messages: dict[str, str]) -> list[ToolCall]:
    async def read() -> list[ToolCall]:
        return [call async for call in predictor.drafts(DraftRequest(messages, []))]

    return asyncio.run(read())


def right(alpha: float, seed: str) -> list[bool]:
    """Which of the tasks' drafts are right."""
    predictor = tools.ChancePredictor(TASKS, alpha, seed)
    drafts = [drafted(predictor, {"role": "user", "content": task.prompt}) for task in TASKS]
    return [made == [task.call] for made, task in zip(drafts, TASKS, strict=True)]


def test_alpha_is_the_share_of_right_drafts() -> None:
    assert all(right(1.0, "a"))
    assert not any(right(0.0, "a"))
    half = right(0.5, "a")
    assert 10 < sum(half) < 30
    assert half == right(0.5, "a") != right(0.5, "b")


def test_a_wrong_draft_has_other_values_and_a_result_none() -> None:
    """A draft that begins like the right call would be verified in part."""
    predictor = tools.ChancePredictor(TASKS, 0.0, "a")
    (wrong,) = drafted(predictor, {"role": "user", "content": TASKS[0].prompt})
    assert wrong == ToolCall("cd", {"folder": "another"})
    history = ({"role": "user", "content": TASKS[0].prompt}, {"role": "tool", "content": "in 0"})
    assert drafted(predictor, *history) == []


def test_tools_return_their_tasks_output_and_take_any_arguments() -> None:
    tasks = [
        Task("a", ToolCall("cd", {"to": "a"}), "in a", 0.0, [], 0),
        Task("b", ToolCall("cd", {}), "in b", 0.0, [], 0),
    ]
    world = tools.TaskTools(tasks)
    assert asyncio.run(world.run("cd", {"to": "a"})) == "in a"
    assert asyncio.run(world.run("cd", {})) == "in b"
    assert "error" in asyncio.run(world.run("cd", {"to": "nowhere"}))
