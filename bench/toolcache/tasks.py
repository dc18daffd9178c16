"""The tasks of the tool cache bench: one request, one call, and the tool's latency."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..speculation.agent_tasks import agent_tasks

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
    """A prompt, the offered tools, the called tool's result, and its latency."""

    prompt: str
    tools: list[dict[str, Any]]
    output: str
    latency_s: float


def tasks_of(workloads: Path | None, count: int, most_s: float, seed: int) -> tuple[str, list[Task]]:
    """Return the source of the tasks, and ``count`` of them; tools take 0 to ``most_s`` seconds, uniformly.

    They are BFCL's multi-turn tasks in the folder ``workloads``, each with its first request and first call;
    without a folder they are synthetic. Tasks of different ``seed`` share no prompt.

    Raises:
        WorkloadNotFoundError: the folder has no such tasks, or too few.
        WorkloadFormatError: a line cannot be read.
    """
    drawn = random.Random(seed)
    source, recorded = agent_tasks(workloads, count, calls=1)
    made = []
    for number, task in enumerate(recorded):
        if workloads is None:
            thing = _THINGS[number % len(_THINGS)]
            prompt, output, name, key = _KINDS[number % len(_KINDS)]
            prompt, output, tool = prompt.format(thing), output.format(thing), _only(name, {key: thing})
        else:
            call = task.calls[0]
            prompt, output, tool = task.request, '{"status": "done"}', _only(call.name, call.arguments)
        made.append(Task(f"{prompt} (request {seed}.{number})", [tool], output, drawn.uniform(0, most_s)))
    return source, made


def _only(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool with only one possible call, so that a model unable to solve the task makes that call."""
    properties = {key: {"enum": [value]} for key, value in arguments.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}
