"""The tasks of the tool cache bench, one request and one call each, their tools, and the predictor."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.calls import ToolCall, canonical_key
from agentrt.drafts import DraftRequest

from ..speculation.agent_tasks import agent_tasks
from ..speculation.timed_agents import TimedTool

_THINGS = ("Oslo", "Ljubljana", "Rome", "Bergen", "Porto", "Turin", "lasagne", "boiler", "garden", "choir")
_KINDS = (
    (
        *("What is the weather in {}?", '{{"city": "{0}", "temperature_c": 12, "sky": "light rain"}}'),
        *("get_weather", "city"),
    ),
    (
        *(
            "Search my mail for {}",
            '{{"mails": [{{"from": "Ana", "subject": "{0}", "date": "2026-03-02"}}]}}',
        ),
        *("search_mail", "query"),
    ),
)
"""Prompt, output, tool and its only argument."""


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt, the call that it leads to, the tool's result, and its latency."""

    prompt: str
    call: ToolCall
    output: str
    latency_s: float
    tools: list[dict[str, Any]]
    """The offered tools."""
    reasoning_tokens: int
    """Tokens that precede the call."""


def latency_of(call: ToolCall, most_s: float, seed: str) -> float:
    """Return 0 to ``most_s`` seconds, uniformly. Equal calls take equal times."""
    return random.Random(f"{seed} {canonical_key(call.name, call.arguments)}").uniform(0, most_s)


def tasks_of(
    workloads: Path | None, count: int, most_s: float, seed: str, reasoning_tokens: int
) -> list[Task]:
    """Return ``count`` tasks; tools take 0 to ``most_s`` seconds, uniformly.

    They are BFCL's multi-turn tasks in the folder ``workloads``, each with its first request and first call;
    without a folder they are synthetic. Tasks of different ``seed`` share no prompt.

    Raises:
        WorkloadNotFoundError: the folder has no such tasks, or too few.
        WorkloadFormatError: a line cannot be read.
    """
    found = agent_tasks(workloads, count, calls=1, seed=seed)
    made = []
    for number, task in enumerate(found):
        prompt, call, output = task.request, _as_written(task.calls[0]), '{"status": "done"}'
        if workloads is None:
            prompt, call, output = _synthetic(number)
        prompt = f"{prompt} (request {seed}.{number})"
        latency_s = latency_of(call, most_s, seed)
        made.append(Task(prompt, call, output, latency_s, _only(call), reasoning_tokens))
    return made


def _as_written(call: ToolCall) -> ToolCall:
    """Return the call as models write it: with 1500 where the workload has 1500.0."""
    written = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in call.arguments.items()
    }
    return ToolCall(call.name, written)


def _only(call: ToolCall) -> list[dict[str, Any]]:
    """Return the tool of ``call`` with one possible call: a model unable to solve the task makes that one."""
    properties = {key: {"enum": [value]} for key, value in call.arguments.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return [{"type": "function", "function": {"name": call.name, "parameters": parameters}}]


def _synthetic(number: int) -> tuple[str, ToolCall, str]:
    thing = _THINGS[number % len(_THINGS)]
    prompt, output, name, key = _KINDS[number % len(_KINDS)]
    return prompt.format(thing), ToolCall(name, {key: thing}), output.format(thing)


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
