"""BFCL tasks as looping agents: a request, then one call a turn until the task is done."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from agentrt.calls import ToolCall
from agentrt.errors import WorkloadNotFoundError

from ..common.workloads import read_records

_FILE = "bfcl_multi_turn.jsonl"


@dataclass(frozen=True, slots=True)
class Task:
    """A user's request, and the calls that a model makes for it, one a turn."""

    id: str
    request: str
    calls: tuple[ToolCall, ...]


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: dict[str, Any]


class _Turn(BaseModel):
    model_config = ConfigDict(extra="ignore")

    messages: list[dict[str, Any]]
    ground_truth: list[_Call]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    turns: list[_Turn]


def agent_tasks(workloads: Path | None, count: int, *, calls: int = 4, seed: int | str = 0) -> list[Task]:
    """Return ``count`` tasks with at most ``calls`` calls each.

    They are BFCL's multi-turn tasks in the folder ``workloads``, of which ``seed`` selects; without a folder
    they are synthetic.

    Raises:
        WorkloadNotFoundError: the folder has no such tasks, or too few.
        WorkloadFormatError: a line cannot be read.
    """
    if workloads is None:
        return [_made_up(number, calls) for number in range(count)]
    tasks = []
    for record in read_records(workloads / _FILE, _Record):
        made = [call for turn in record.turns for call in turn.ground_truth][:calls]
        if len(made) == calls and not _repeats(made):
            request = str(record.turns[0].messages[0]["content"])
            ground_truth = tuple(ToolCall(call.name, call.arguments) for call in made)
            tasks.append(Task(record.id, f"{record.id}: {request}", ground_truth))
    if len(tasks) < count:
        raise WorkloadNotFoundError(
            f"{workloads / _FILE} has {len(tasks)} tasks of {calls} calls, and {count} are needed. "
            "Name the folder in which the whole file lies."
        )
    return random.Random(seed).sample(tasks, count)


def tools_of(tasks: Sequence[Task]) -> list[str]:
    """Return the names of all tools that the tasks call."""
    return sorted({call.name for task in tasks for call in task.calls})


def _repeats(calls: Sequence[_Call]) -> bool:
    return any(one == other for one, other in itertools.pairwise(calls))


def _made_up(number: int, calls: int) -> Task:
    made = tuple(
        ToolCall(("find", "read", "list", "open")[step % 4], _arguments(number, step))
        for step in range(calls)
    )
    return Task(f"task_{number}", f"task_{number}: look up four things", made)


def _arguments(number: int, step: int) -> Mapping[str, Any]:
    return {"query": f"subject {number}", "place": step}
