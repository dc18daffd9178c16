"""The tasks of the tool cache bench: one request, one call, and how long its tool takes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..calls import ToolCall
from ._agent_tasks import agent_tasks

_THINGS = ("Oslo", "Ljubljana", "Rome", "Bergen", "Porto", "Turin", "lasagne", "boiler", "garden", "choir")
_PAIRS = (
    ("What is the weather in {}?", '{{"city": "{0}", "temperature_c": 12, "sky": "light rain"}}'),
    ("Find my notes about {}", '{{"notes": [{{"title": "{0}", "text": "Ask Ana about {0} on Monday."}}]}}'),
    ("Search my mail for {}", '{{"mails": [{{"from": "Ana", "subject": "{0}", "date": "2026-03-02"}}]}}'),
)
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {key: {"enum": list(_THINGS)}}, "required": [key]},
        },
    }
    for name, description, key in (
        ("get_weather", "Current weather in a city.", "city"),
        ("search_notes", "Search the user's notes for a phrase.", "query"),
        ("search_mail", "Search the user's mail for a phrase.", "query"),
        ("list_events", "The user's calendar on a day.", "day"),
    )
]


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt, the tools on offer, what the called one will say, and how long that takes."""

    prompt: str
    tools: list[dict[str, Any]]
    output: str
    latency_s: float


def tasks_of(workloads: Path | None, count: int, most_s: float, seed: int) -> tuple[str, list[Task]]:
    """Return where the tasks are from, and ``count`` of them; tools take 0 to ``most_s`` seconds, evenly.

    They are BFCL's multi-turn tasks in the folder ``workloads``, each with its first request and first call;
    without a folder they are made up. Tasks of another ``seed`` share no prompt.

    Raises:
        WorkloadNotFoundError: the folder has no such tasks, or too few.
        WorkloadFormatError: a line cannot be read.
    """
    drawn = random.Random(seed)
    source, recorded = agent_tasks(workloads, count, calls=1)
    made = []
    for number, task in enumerate(recorded):
        if workloads is None:
            prompt, output = (
                text.format(_THINGS[number % len(_THINGS)]) for text in _PAIRS[number % len(_PAIRS)]
            )
            tools = _TOOLS
        else:
            prompt, output, tools = task.request, '{"status": "done"}', [_only(task.calls[0])]
        made.append(Task(f"{prompt} (request {seed}.{number})", tools, output, drawn.uniform(0, most_s)))
    return source, made


def _only(call: ToolCall) -> dict[str, Any]:
    """A tool that can be called in one way: so a model that could not solve the task makes the right call."""
    properties = {name: {"enum": [value]} for name, value in call.arguments.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": call.name, "parameters": parameters}}
