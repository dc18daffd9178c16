"""What share of tasks a model answers with exactly the right calls, here and in llama.cpp's server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentrt.calls import CallFinished, MessageParser, ToolCall, ToolCallFormat, ToolDefinitions

from .bfcl import Task
from .llama_cpp import LlamaCpp
from .recorded_answers import RECORDED_ANSWERS, TOOLS, answers_without_calls
from .runtime_side import RuntimeSide

_MOST_TOKENS = 256


@dataclass
class GroupResult:
    """How many tasks of one group were solved."""

    tasks: int = 0
    exact: int = 0
    repaired: int = 0
    llama_cpp: int | None = None
    llama_cpp_reread: int | None = None
    """Tasks that llama.cpp solves if agentrt's parser reads the text of its answers."""


@dataclass
class CallResults:
    """Results by group of tasks."""

    groups: dict[str, GroupResult] = field(default_factory=dict)


def recall_of_recorded_answers() -> tuple[float, int]:
    """Return the share of recorded answers whose calls are read, and the calls read where there are none."""
    read = 0
    for answer in RECORDED_ANSWERS:
        read += calls_in(answer.text, answer.format) == list(answer.calls)
    false = sum(bool(calls_in(text, "hermes")) for text in answers_without_calls())
    return read / len(RECORDED_ANSWERS), false


def calls_in(text: str, format: str, tools: Sequence[Mapping[str, object]] = TOOLS) -> list[ToolCall]:
    """Return the calls of ``tools`` in the whole answer of a model with this format."""
    own: ToolCallFormat = getattr(ToolCallFormat, format.upper())
    parser = MessageParser(own, ToolDefinitions(tools, trusted=own))
    events = parser.feed(text) + parser.close()
    return [event.call for event in events if isinstance(event, CallFinished)]


def measure_calls(
    runtime: RuntimeSide,
    peer: LlamaCpp | None,
    tasks: Mapping[str, Sequence[Task]],
    progress: Callable[[str], None],
) -> CallResults:
    """Put every task to the model, greedily, in both engines one after the other."""
    results = CallResults()
    format = runtime.call_format
    for name, group in tasks.items():
        result = results.groups.setdefault(name, GroupResult())
        for number, task in enumerate(group, 1):
            progress(f"{name} calls, task {number} of {len(group)}")
            ours, repaired = runtime.calls(task.messages, task.tools, _MOST_TOKENS)
            result.tasks += 1
            result.exact += task.solved_by(ours)
            result.repaired += repaired
            if peer is not None:
                calls, text = peer.calls(task.messages, task.tools, _MOST_TOKENS)
                reread = calls or calls_in(text, format, task.tools)
                result.llama_cpp = (result.llama_cpp or 0) + task.solved_by(calls)
                result.llama_cpp_reread = (result.llama_cpp_reread or 0) + task.solved_by(reread)
    return results
