"""The sliding window over a conversation that is longer than the context: what of it stays (LLMS §4).

What a prompt begins with stays, as attention sinks in a stream do: instructions and tools. Behind them the
oldest messages are left out, in large steps, so that the prompts of many turns begin alike and the prefix
cache serves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, TypeAlias, TypeVar

Truncation: TypeAlias = Literal["auto", "disabled"]
"""OpenAI's names: whether messages of a prompt that is too long are left out, or it is refused."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PromptTruncated:
    """What was left out of a prompt that was too long: the first event of its answer."""

    messages: int
    tokens: int
    """About how many these have."""


@dataclass(frozen=True, slots=True)
class Window:
    """What stays of a conversation: its instructions, then the messages from ``begin`` on."""

    instructions: int
    """How many messages the instructions are."""
    asked: int
    """The message of the user that the one at ``begin`` follows; ``begin`` if it is that one itself, or none
    of the user is before it."""
    begin: int

    def of(self, messages: Sequence[T]) -> list[T]:
        """Return what stays of ``messages``."""
        asked = messages[self.asked : self.asked + 1] if self.asked < self.begin else ()
        return [*messages[: self.instructions], *asked, *messages[self.begin :]]


def windows(
    messages: Sequence[Mapping[str, Any]], sizes: Sequence[int], room: int, usual_room: int
) -> Iterator[Window]:
    """Yield what may stay of a conversation that is longer than ``room`` tokens, the longest first.

    ``messages`` are checked, ``sizes`` their tokens. No call is separated from its outputs, and where a turn
    is cut its question stays: chat templates want it, and agents forget what they were asked otherwise.

    A window begins at a multiple of half of what stays of ``usual_room`` behind the instructions, counted
    from the beginning of the conversation. So it is the same for the next turns until these fill the half
    that was freed, and never moves back as the conversation grows, although nothing is remembered between
    them. ``usual_room`` is the same for all prompts of the conversation; ``room`` may differ.
    """
    first = next((at for at, each in enumerate(messages) if each["role"] != "system"), len(messages))
    before = list(accumulate(sizes, initial=0))
    step = max(1, (usual_room - before[first]) // 2)
    begins = [at for at in _undivided(messages) if at > first]
    yielded, dropped = first, step
    for begin in begins:
        left_out = before[begin] - before[first]
        if left_out < dropped and begin != begins[-1]:
            continue
        dropped = (left_out // step + 1) * step
        asked = _question(messages, first, begin)
        fits = before[first] + before[-1] - before[begin] + (sizes[asked] if asked < begin else 0) <= room
        if (fits or begin == begins[-1]) and begin > yielded:
            yielded = begin
            yield Window(first, asked, begin)


def _question(messages: Sequence[Mapping[str, Any]], first: int, begin: int) -> int:
    """Return the message of the user that those from ``begin`` on answer; ``begin`` if there is none."""
    if messages[begin]["role"] == "user":
        return begin
    return next((at for at in range(begin - 1, first - 1, -1) if messages[at]["role"] == "user"), begin)


def _undivided(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return where a conversation can be cut: in front of messages that no call is before whose output is
    behind."""
    called: dict[Any, int] = {}
    last_output: dict[int, int] = {}
    for at, message in enumerate(messages):
        for call in message.get("tool_calls", ()):
            called[call.get("id")] = at
        if message["role"] == "tool" and (call_at := called.get(message.get("tool_call_id"))) is not None:
            last_output[call_at] = at
    begins, divided = [], -1
    for at, message in enumerate(messages):
        if message["role"] != "tool" and at > divided:
            begins.append(at)
        divided = max(divided, last_output.get(at, -1))
    return begins
