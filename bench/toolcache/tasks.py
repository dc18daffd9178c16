"""The tasks of the tool cache bench: one request, one call, and the tool's latency."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.calls import ToolCall, canonical_key

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
        prompt, call, output = task.request, task.calls[0], '{"status": "done"}'
        if workloads is None:
            prompt, call, output = _synthetic(number)
        prompt = f"{prompt} (request {seed}.{number})"
        latency_s = latency_of(call, most_s, seed)
        made.append(Task(prompt, call, output, latency_s, _only(call), reasoning_tokens))
    return made


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
