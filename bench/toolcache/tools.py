"""The tools of the tool cache bench, and the predictor of their calls."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from agentrt.calls import ToolCall, canonical_key
from agentrt.drafts import DraftRequest

from ..speculation.timed_agents import TimedTool
from .tasks import Task

DRAFT_S = 0.05
"""Seconds of a draft (SpecTools' g)."""


class TaskTools:
    """The tools of some tasks. They take any arguments; a call of no task takes as long as a mean one."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """``tasks`` say what their calls return, and after how many seconds."""
        self._tasks = {canonical_key(task.call.name, task.call.arguments): task for task in tasks}
        self._mean_s = statistics.fmean(task.latency_s for task in tasks)
        names = sorted({task.call.name for task in tasks})
        self.speculable: list[Any] = [TimedTool(name, self.run) for name in names]

    async def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return the result of a call, after its time."""
        task = self._tasks.get(canonical_key(name, arguments))
        await asyncio.sleep(self._mean_s if task is None else task.latency_s)
        return '{"error": "no such thing"}' if task is None else task.output


class ChancePredictor:
    """Predictor whose drafts are right with a set chance: SpecTools' alpha. One seed gives one sequence."""

    def __init__(self, tasks: Sequence[Task], alpha: float, seed: str) -> None:
        """``alpha`` is the probability of a right draft; each draft takes :data:`DRAFT_S`."""
        self.name = f"right {alpha:.0%}"
        self.shares_cores = False
        self._calls = {task.prompt: task.call for task in tasks}
        self._alpha = alpha
        self._seed = seed

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield one draft of a task's call; none once the task has its result."""
        if request.messages[-1]["role"] != "user":
            return
        await asyncio.sleep(DRAFT_S)
        prompt = request.messages[-1]["content"]
        call = self._calls[prompt]
        right = random.Random(f"{self._seed} {prompt}").random() < self._alpha
        yield call if right else _wrong(call)


def _wrong(call: ToolCall) -> ToolCall:
    """Return a call of the same tool with other values: one that only adds some would still help O2."""
    return ToolCall(call.name, dict.fromkeys(call.arguments, "another") or {"draft": "another"})
