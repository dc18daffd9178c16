"""BFCL's single-turn tasks: one request, offered tools, and the calls that answer it exactly."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from agentrt.calls import ToolCall

from ..common.workloads import read_records

FILE: Final = "bfcl_single.jsonl"
GROUPS: Final = {
    "simple": ("simple_python", "live_simple"),
    "multiple": ("multiple", "live_multiple"),
    "parallel": ("parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple"),
    "irrelevance": ("irrelevance",),
}
"""The categories of tasks by what they test: one tool, a choice of tools, several calls, no call."""
_IGNORED: Final = re.compile(r"[ ,./\-_*^]")


class ExpectedCall(BaseModel):
    """One call of the answer, with the accepted values of each argument; "" accepts that it is left out."""

    name: str
    acceptable: dict[str, list[Any]]

    def matches(self, call: ToolCall) -> bool:
        """Whether ``call`` is this call."""
        if call.name != self.name or not call.arguments.keys() <= self.acceptable.keys():
            return False
        return all(
            any(_equal(call.arguments[name], value) for value in values)
            if name in call.arguments
            else "" in values
            for name, values in self.acceptable.items()
        )


class Task(BaseModel):
    """One task."""

    id: str
    category: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    ground_truth: list[ExpectedCall]

    def solved_by(self, calls: Sequence[ToolCall]) -> bool:
        """Whether ``calls`` are exactly those of the answer, in any order."""
        left = list(calls)
        for expected in self.ground_truth:
            found = next((call for call in left if expected.matches(call)), None)
            if found is None:
                return False
            left.remove(found)
        return not left


def load_tasks(
    folder: Path, counts: Mapping[str, int], *, held_back: bool | None = None
) -> dict[str, list[Task]]:
    """Load as many tasks of each group as ``counts`` says, spread evenly over those in ``folder``.

    With ``held_back`` they are those that nothing is tuned on, or the others.

    Raises:
        WorkloadNotFoundError: the file is not there.
        WorkloadFormatError: a line cannot be read.
    """
    tasks = [
        task
        for task in read_records(folder / FILE, Task)
        if held_back is None or is_held_back(task.id) is held_back
    ]
    groups = {name: [task for task in tasks if task.category in kinds] for name, kinds in GROUPS.items()}
    return {name: _spread(groups[name], count) for name, count in counts.items()}


def is_held_back(name: str) -> bool:
    """Whether nothing is tuned on the task of this name: half of all, by a digest of their names."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def _spread(tasks: Sequence[Task], count: int) -> list[Task]:
    step = max(1, len(tasks) // count)
    return list(tasks[::step][:count])


def _equal(value: Any, accepted: Any) -> bool:
    """Whether two values are equal as BFCL compares them: texts without case, spaces and punctuation."""
    if isinstance(value, str) and isinstance(accepted, str):
        return _IGNORED.sub("", value).lower() == _IGNORED.sub("", accepted).lower()
    if isinstance(value, bool) or isinstance(accepted, bool):
        return value is accepted
    if isinstance(value, list) and isinstance(accepted, list):
        return len(value) == len(accepted) and all(map(_equal, value, accepted))
    if isinstance(value, Mapping) and isinstance(accepted, Mapping):
        # The accepted values of a nested object are lists of alternatives, as those of arguments are.
        return value.keys() <= accepted.keys() and all(
            _accepts(alternatives, value.get(name, "")) for name, alternatives in accepted.items()
        )
    return bool(value == accepted)


def _accepts(alternatives: Any, value: Any) -> bool:
    return any(
        _equal(value, each) for each in (alternatives if isinstance(alternatives, list) else [alternatives])
    )
