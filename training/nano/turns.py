"""What a synthetic dialogue is made of: turns, each with its calls, their results and the answer."""

from __future__ import annotations

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
