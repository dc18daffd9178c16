"""The tasks of a given model: requests that it answers with a call, and what a draft model makes of them."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentrt.calls import ToolCall, canonical_key
from agentrt.drafts import DraftRequest, Speculator
from agentrt.errors import BenchModelError

from ..common.bench_model import BenchModel
from ..models.bfcl import load_tasks
from .clients import Clients
from .server import BenchServer
from .tasks import Task, latency_of

_REASON: Final = "First say in two or three sentences what you will look up and why. Then call the tool."
_BFCL_TASKS: Final = 400
_CITIES: Final = (
    *("Oslo", "Ljubljana", "Rome", "Bergen", "Porto", "Turin", "Quito", "Lagos", "Hanoi", "Perth"),
    *("Cork", "Graz", "Lima", "Kyoto", "Izmir", "Tunis", "Bern", "Malmo", "Ghent", "Leeds"),
)
_WEATHER: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@dataclass(frozen=True, slots=True)
class _Question:
    prompt: str
    tools: list[dict[str, Any]]
    output: str


class GivenTasks:
    """Tasks whose calls are those that the model itself makes."""

    def __init__(
        self,
        server: BenchServer,
        clients: Clients,
        workloads: Path | None,
        progress: Callable[[str], None],
    ) -> None:
        """Questions are BFCL's single-turn tasks in the folder ``workloads``; about the weather without one.

        Raises:
            WorkloadNotFoundError, WorkloadFormatError: the tasks cannot be read.
        """
        self.source = "questions about the weather" if workloads is None else "BFCL single-turn tasks"
        self._server = server
        self._clients = clients
        self._progress = progress
        self._questions = _weather() if workloads is None else _bfcl(workloads)
        self._asked = self._called = 0

    @property
    def call_share(self) -> float:
        """The share of the questions that the model has answered with a call."""
        return self._called / self._asked

    async def take(self, count: int, most_s: float, seed: str) -> list[Task]:
        """Return ``count`` tasks, or as many as the model calls a tool in; tools take up to ``most_s``.

        Raises:
            BenchModelError: the model has called no tool.
        """
        tasks: list[Task] = []
        for number, question in enumerate(random.Random(seed).sample(self._questions, len(self._questions))):
            if len(tasks) == count:
                break
            # Small models that are told to reason may write the call as part of their text.
            task = await self._task(question, _REASON, seed, number, most_s)
            task = task or await self._task(question, "", seed, number, most_s)
            self._asked += 1
            self._called += task is not None
            if task is not None:
                tasks.append(task)
            elif not tasks and number + 1 >= 5 * count:
                break
        if not tasks:
            raise BenchModelError(
                "the model has answered no question with a tool call. Name one that is trained to call tools."
            )
        self._progress(f"{len(tasks)} tasks with calls of the model")
        return tasks

    async def _task(
        self, question: _Question, request: str, seed: str, number: int, most_s: float
    ) -> Task | None:
        prompt = " ".join(filter(None, (question.prompt, request, f"(request {seed}.{number})")))
        made = await self._clients.plain.chat.completions.create(
            model=self._clients.model,
            messages=[{"role": "user", "content": prompt}],
            tools=question.tools,
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=self._clients.max_tokens,
        )
        message = made.choices[0].message
        if not message.tool_calls:
            return None
        function = message.tool_calls[0].function
        call = ToolCall(function.name, json.loads(function.arguments))
        reasoning = self._server.count_tokens(message.content or "")
        return Task(prompt, call, question.output, latency_of(call, most_s, seed), question.tools, reasoning)


def _weather() -> list[_Question]:
    return [
        _Question(
            f"What is the weather in {city}?",
            [_WEATHER],
            json.dumps({"city": city, "temperature_c": 12, "sky": "light rain"}),
        )
        for city in _CITIES
    ]


def _bfcl(workloads: Path) -> list[_Question]:
    return [
        _Question(str(task.messages[-1]["content"]), task.tools, '{"status": "done"}')
        for task in load_tasks(workloads, {"simple": _BFCL_TASKS})["simple"]
    ]


def load_drafts(models: Sequence[BenchModel]) -> dict[str, Speculator]:
    """Return a predictor on one thread for each draft model, by its title."""
    from agentrt.speculators import LocalSpeculator

    return {model.title: LocalSpeculator(model.path, threads=1) for model in models}


async def draft_figures(drafts: Mapping[str, Speculator], tasks: Sequence[Task]) -> dict[str, float]:
    """Return how well, and how fast, the first of ``drafts`` predicts the calls; nothing without one.

    Nothing else runs meanwhile.
    """
    if not drafts:
        return {}
    draft, right, seconds = next(iter(drafts.values())), 0, []
    for task in tasks:
        request = DraftRequest([{"role": "user", "content": task.prompt}], task.tools)
        began = time.perf_counter()
        drafted = [_key(call) async for call in draft.drafts(request)]
        seconds.append(time.perf_counter() - began)
        right += _key(task.call) in drafted
    return {"draft_right_share": right / len(tasks), "draft_s": statistics.median(seconds)}


def _key(call: ToolCall) -> object:
    return canonical_key(call.name, call.arguments)
