"""Recorded tool-calling conversations of public benchmarks, as a predictor receives them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrt.calls import ToolCall
from agentrt.errors import WorkloadFormatError, WorkloadNotFoundError

Record = TypeVar("Record", bound=BaseModel)
_CHANGES = (
    r"(^|_|\.)(create|add|post|update|delete|send|remove|set|insert|upload|edit|submit|write|cancel|book"
    r"|modify|register|schedule|Buy\w*)(_|$)|^Finish$|^invalid_hallucination_function_name$"
)


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One answer of the recorded model: the ``calls`` it made when it had read ``history`` messages.

    ``known`` is False where the record names the tool but has lost its arguments.
    """

    history: int
    calls: tuple[ToolCall, ...]
    known: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """One recorded conversation: messages and tools in OpenAI's shape, and where the model answered."""

    id: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    read_only: frozenset[str]
    """The tools that change nothing and are worth to be run early."""
    group: str = ""
    """What the conversation shares with others: a user, a task, a repository issue. Its id if nothing."""
    turns: list[RecordedTurn] = field(default_factory=list)


def traced(folder: Path) -> dict[str, list[Conversation]]:
    """Load every workload of recorded conversations that is in ``folder``, by its short name.

    Raises:
        WorkloadNotFoundError: there is none in that folder.
        WorkloadFormatError: a line cannot be read; the message names file and line.
    """
    loaded = {name: list(workload.conversations(folder)) for name, workload in _WORKLOADS.items()}
    found = {name: conversations for name, conversations in loaded.items() if conversations}
    if not found:
        raise WorkloadNotFoundError(
            f"{folder} holds none of {', '.join(each.file for each in _WORKLOADS.values())}. "
            "Name the folder in which the workloads lie."
        )
    return found


def read_records(path: Path, kind: type[Record]) -> Iterator[Record]:
    """Yield the records of a JSONL file.

    Raises:
        WorkloadFormatError: a line is not such a record; the message names file and line.
        WorkloadNotFoundError: there is no such file.
    """
    try:
        file = path.open(encoding="utf-8")
    except FileNotFoundError:
        raise WorkloadNotFoundError(f"there is no file {path}. Name the folder of the workloads.") from None
    with file:
        lines = enumerate(file, 1)
        while True:
            try:
                number, line = next(lines)
            except StopIteration:
                return
            except UnicodeDecodeError as error:
                raise WorkloadFormatError(path, 0, f"it is not UTF-8 ({error.reason})") from error
            if not line.strip():
                continue
            try:
                yield kind.model_validate_json(line)
            except ValidationError as error:
                problem = error.errors()[0]
                where = ".".join(map(str, problem["loc"])) or "the line"
                raise WorkloadFormatError(path, number, f"{where}: {problem['msg']}") from None


# The files' records; fields that are not needed here are ignored.


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True)

    type: str = "tool"
    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] | None = None
    thought: str | None = None
    result: Any = ""
    state: str = ""


class _Trace(BaseModel):
    model_config = ConfigDict(frozen=True)

    id: str
    group: str | None = None
    query: str | None = None
    task: str | None = None
    steps: list[_Step]


class _OfferedTool(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    params: list[str]
    required: list[str]


class _Sequence(_Trace):
    tools: list[_OfferedTool] = Field(min_length=1)


@dataclass(frozen=True)
class _Workload:
    """A benchmark's file, how it is read, and the names of its tools that only look something up."""

    file: str
    read: Callable[[Path], Iterator[tuple[_Trace, list[dict[str, Any]]]]]
    """Yields each conversation with the tools that were on offer for it."""
    reads: str = ""
    writes: str = r"(?!)"

    def conversations(self, folder: Path) -> Iterator[Conversation]:
        path = folder / self.file
        for trace, tools in self.read(path) if path.is_file() else ():
            names = (str(tool["function"]["name"]) for tool in tools)
            read_only = (
                name for name in names if re.search(self.reads, name) and not re.search(self.writes, name)
            )
            yield _conversation(trace, tools, frozenset(read_only))


def _dialogues(path: Path) -> Iterator[tuple[_Trace, list[dict[str, Any]]]]:
    """Read conversations whose tools are gathered from all calls.

    Names, parameters and types are gathered: what an agent knows of its tools before it calls them.
    """
    traces = list(read_records(path, _Trace))
    tools = _gathered(traces)
    yield from ((trace, tools) for trace in traces)


def _documented_dialogues(path: Path) -> Iterator[tuple[_Trace, list[dict[str, Any]]]]:
    """Read conversations whose tools are documented beside them."""
    documents = path.parent / "common" / "tau_tools.json"
    try:
        tools: list[dict[str, Any]] = json.loads(documents.read_text(encoding="utf-8"))["airline"]
    except FileNotFoundError:
        raise WorkloadNotFoundError(f"there is no file {documents}. Copy the whole folder.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise WorkloadFormatError(documents, 1, f"it holds no tools ({error})") from error
    yield from ((trace, tools) for trace in read_records(path, _Trace))


def _sequences(path: Path) -> Iterator[tuple[_Trace, list[dict[str, Any]]]]:
    """Read sequences of calls, each with the tools that were on offer for it; results were not recorded."""
    for record in read_records(path, _Sequence):
        yield record, [_schema(tool.name, dict.fromkeys(tool.params), tool.required) for tool in record.tools]


_WORKLOADS: dict[str, _Workload] = {
    "tau": _Workload(
        "tau_airline_traces.jsonl", _documented_dialogues, r"^(get|search|find|list|calculate)_"
    ),
    "apibank": _Workload(
        "apibank_traces.jsonl",
        _dialogues,
        r"^(Get|Query|Search|Find|List|Check)|Search(er|Engine)?$|Knowledge$|Recognition$|Caption$"
        r"|^(Translate|Calculator|Wiki|Dictionary)$",
    ),
    "toolbench": _Workload("toolbench_eval_sequences.jsonl", _sequences, writes=_CHANGES),
    "autodroid": _Workload("autodroid_tasks.jsonl", _dialogues, r"^tap$"),
    "swe_agent": _Workload(
        "swe_agent_traces.jsonl",
        _dialogues,
        r"^(open|goto|scroll_(up|down)|search_(file|dir)|find_file|ls|cat|grep|find|head|tail|pwd|file"
        r"|strings)$",
    ),
}


def _conversation(trace: _Trace, tools: list[dict[str, Any]], read_only: frozenset[str]) -> Conversation:
    """Replay a trace as messages.

    Text before a call without a user message in between belongs to the same answer. A screen recorded
    before a step is the result of the previous step; the first one is the result of looking at the screen.
    """
    found = Conversation(trace.id, [], tools, read_only, trace.group or trace.id)
    messages = found.messages
    asked = trace.query or trace.task
    if asked:
        messages.append({"role": "user", "content": asked})
    said: list[str] = []
    turn_at = len(messages)
    ids = (f"call_{number}" for number in itertools.count())

    def answer(calls: tuple[ToolCall, ...], known: bool = True) -> None:
        found.turns.append(RecordedTurn(turn_at, calls, known))
        message: dict[str, Any] = {"role": "assistant", "content": "\n".join(said) or None}
        if calls:
            message["tool_calls"] = [_as_message(call, known) for call in calls]
        messages.append(message)
        said.clear()

    for step in trace.steps:
        if step.type == "reply":
            said.append(step.text)
            continue
        if step.type == "user":
            if said:
                answer(())
            messages.append({"role": "user", "content": step.text})
            turn_at = len(messages)
            continue
        if step.state and messages[-1]["role"] == "tool":
            messages[-1]["content"] = step.state
        elif step.state:
            look = ToolCall("look_at_screen", {}, next(ids))
            messages.append({"role": "assistant", "content": None, "tool_calls": [_as_message(look, True)]})
            messages.append({"role": "tool", "tool_call_id": look.id, "content": step.state})
            turn_at = len(messages)
        if step.thought:
            said.append(step.thought)
        call = ToolCall(step.tool, step.arguments or {}, next(ids))
        answer((call,), step.arguments is not None)
        result = step.result if isinstance(step.result, str) else json.dumps(step.result)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        turn_at = len(messages)
    if said:
        answer(())
    return found


def _as_message(call: ToolCall, known: bool) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments)) if known else ""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _gathered(traces: Sequence[_Trace]) -> list[dict[str, Any]]:
    types: dict[str, dict[str, str | None]] = {}
    required: dict[str, set[str]] = {}
    for step in (step for trace in traces for step in trace.steps):
        if step.tool and step.arguments is not None:
            known = types.setdefault(step.tool, {})
            for name, value in step.arguments.items():
                known.setdefault(name, _type_name(value))
            required.setdefault(step.tool, set(step.arguments)).intersection_update(step.arguments)
    return [_schema(name, each, sorted(required[name])) for name, each in types.items()]


def _schema(name: str, types: Mapping[str, str | None], required: Iterable[str]) -> dict[str, Any]:
    properties = {each: {} if kind is None else {"type": kind} for each, kind in types.items()}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _type_name(value: Any) -> str | None:
    names = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value))
