"""What a synthetic dialogue is made of: turns, each with its calls, their results and the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .tools import Tool


@dataclass(frozen=True)
class Step:
    """One call and what the tool returned, as text."""

    name: str
    arguments: Mapping[str, Any]
    result: str


@dataclass(frozen=True)
class Turn:
    """A request, the calls that serve it, the answer, and the facts a grounded answer must contain."""

    kind: str
    request: str
    steps: tuple[Step, ...]
    answer: str
    facts: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    """What a search found that another tool can read: ids or paths."""
    parallel: bool = False
    """Whether the assistant makes all calls in one message."""

    @property
    def messages(self) -> tuple[tuple[Step, ...], ...]:
        """The calls of each message of the assistant before its answer."""
        return (self.steps,) if self.parallel else tuple((step,) for step in self.steps)


@dataclass
class Dialogue:
    """Tools, a system prompt and turns."""

    system: str
    tools: list[Tool]
    turns: list[Turn] = field(default_factory=list)
    calls_only: bool = False
    """Show of each turn with a call only the first message: many choices of a tool in little text."""


@dataclass(frozen=True)
class Mix:
    """What a training dialogue's turns ask for."""

    small_talk: float = 0.035
    unserved: float = 0.055
    several: float = 0.08
    """Share of turns that ask for several calls at once."""
    searches: float = 0.0
    """Share of all other turns that begin with a search, where a tool searches. If there are any, a hit is to
    be read only where a tool reads it."""


USUAL_MIX = Mix()


def together(turns: Sequence[Turn], request: str) -> Turn:
    """One turn that asks for what all ``turns`` ask for; each of them makes one call."""
    return Turn(
        "several",
        request,
        tuple(step for turn in turns for step in turn.steps),
        "\n".join(turn.answer for turn in turns),
        tuple(fact for turn in turns for fact in turn.facts),
        parallel=True,
    )


def messages_of(steps: Sequence[Step], number: int = 0) -> list[dict[str, Any]]:
    """The message that makes the calls of ``steps``, which is the ``number``-th, and their results."""
    calls, results = [], []
    for index, step in enumerate(steps):
        function = {"name": step.name, "arguments": json.dumps(dict(step.arguments), ensure_ascii=False)}
        call_id = f"call_{number}_{index}"
        calls.append({"id": call_id, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": call_id, "content": step.result})
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
