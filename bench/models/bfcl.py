"""BFCL's tasks: one request, offered tools, and the calls that answer it exactly."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from agentrt.calls import ToolCall
from agentrt.errors import WorkloadNotFoundError

from ..common.workloads import read_records

T = TypeVar("T")

FILE: Final = "bfcl_single.jsonl"
GROUPS: Final = {
    "simple": ("simple_python", "live_simple"),
    "multiple": ("multiple", "live_multiple"),
    "parallel": ("parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple"),
    "irrelevance": ("irrelevance",),
}
"""The categories of tasks by what they test: one tool, a choice of tools, several calls, no call."""
MULTI_TURN_FILE: Final = "bfcl_multi_turn.jsonl"
MULTI_TURN: Final = ("multi_turn_base", "multi_turn_miss_param")
"""Its conversations in which all tools are there from the beginning."""
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


class FirstCall(Task):
    """One user turn of a conversation, after the calls that answer the turns before it exactly."""

    def solved_by(self, calls: Sequence[ToolCall]) -> bool:
        """Whether the first of ``calls`` is the first that answers this turn: others need its result."""
        return super().solved_by(calls[:1])


class _MadeCall(BaseModel):
    name: str
    arguments: dict[str, Any]


class _Turn(BaseModel):
    messages: list[dict[str, Any]]
    ground_truth: list[_MadeCall]


class _Conversation(BaseModel):
    id: str
    group: str
    category: str
    tool_classes: list[str]
    excluded_tools: list[str] = []
    turns: list[_Turn]


def load_first_calls(folder: Path, count: int, *, held_back: bool) -> list[Task]:
    """Load turns of BFCL's conversations whose tools are of one class, one turn of each, by class.

    Variants of a conversation are held back, or not, together. Those with tools that come later are left out.

    Raises:
        WorkloadError: a file is missing, or damaged.
    """
    file = folder / "common" / "bfcl_multi_turn_tools.json"
    try:
        classes: dict[str, list[dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WorkloadNotFoundError(f"there is no file {file}. Copy the whole folder.") from None
    found = [
        each
        for each in read_records(folder / MULTI_TURN_FILE, _Conversation)
        if each.category in MULTI_TURN
        and len(each.tool_classes) == 1
        and is_held_back(each.group) is held_back
    ]
    found = sorted(_spread(found, count), key=lambda each: each.tool_classes)
    return [_first_call(each, number, classes) for number, each in enumerate(found)]


def _first_call(record: _Conversation, number: int, classes: Mapping[str, list[dict[str, Any]]]) -> Task:
    place = number % len(record.turns)
    messages: list[dict[str, Any]] = []
    for turn in record.turns[:place]:
        messages += turn.messages
        for call in turn.ground_truth:
            made = {"name": call.name, "arguments": json.dumps(call.arguments)}
            id = f"call_{len(messages)}"
            messages += [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": id, "type": "function", "function": made}],
                },
                {"role": "tool", "tool_call_id": id, "content": "OK"},
            ]
    offered = [tool for name in record.tool_classes for tool in classes[name]]
    asked = record.turns[place]
    return FirstCall(
        id=record.id,
        category=record.category,
        messages=[*messages, *asked.messages],
        tools=[tool for tool in offered if tool["function"]["name"] not in record.excluded_tools],
        ground_truth=[
            ExpectedCall(name=call.name, acceptable={name: [value] for name, value in call.arguments.items()})
            for call in asked.ground_truth[:1]
        ],
    )


def _spread(found: Sequence[T], count: int) -> list[T]:
    step = max(1, len(found) // count)
    return list(found[::step][:count])


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
