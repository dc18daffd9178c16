"""A conversation as the pattern speculator sees it: what was said, called and returned, in order."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentrt.calls import parse_arguments

_MAX_EVENTS = 80
_MAX_TEXT = 20_000
_MAX_DEPTH = 64
_MAX_SYSTEM_PROMPT = 4_000
SYSTEM_PROMPT = "system prompt"
"""What a system prompt is called among the tools that returned something."""
_JSON_START = re.compile(r"\s*[\[{]")


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the user, or of the model if ``by_model``."""

    text: str
    by_model: bool


@dataclass(frozen=True, slots=True)
class Called:
    """A call the model made; ``arguments`` are None where they cannot be read."""

    tool: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Returned:
    """What a call of ``tool`` came to: ``value`` is the parsed JSON, or the text itself."""

    tool: str
    value: Any


Event: TypeAlias = Said | Called | Returned


def read_history(messages: Sequence[Mapping[str, Any]]) -> list[Event]:
    """Return the events of a conversation in OpenAI's shape: the last ones, and always how it began.

    Never raises on a message of an unexpected shape: that one is left out.
    """
    events: list[Event] = []
    tools: dict[str, str] = {}
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer"):  # as if someone had looked up who and when it is
            events.append(Returned(SYSTEM_PROMPT, _text(message.get("content"))[:_MAX_SYSTEM_PROMPT]))
        if role in ("user", "assistant"):
            text = _text(message.get("content"))
            if text:
                events.append(Said(text, by_model=role == "assistant"))
        if role == "assistant":
            for call in message.get("tool_calls") or ():
                function = call.get("function") or {}
                name = str(function.get("name"))
                tools[str(call.get("id"))] = name
                events.append(Called(name, _arguments(function.get("arguments"))))
        elif role == "tool":
            name = tools.get(str(message.get("tool_call_id")), "")
            events.append(Returned(name, parse_result(_text(message.get("content")))))
    if len(events) > _MAX_EVENTS:
        return [*events[:2], *events[2 - _MAX_EVENTS :]]
    return events


@functools.lru_cache(256)  # the next turn's history is this one's and a little more
def parse_result(text: str) -> Any:
    """Parse a tool's output: JSON, JSON that was cut off somewhere, a Python literal, or just text."""
    if not _JSON_START.match(text):
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return _parse_cut(text)


def _parse_cut(text: str) -> Any:
    """Parse JSON whose end is missing as far as it goes; the text itself where that is nowhere."""
    closers: list[str] = []
    ends: list[tuple[int, str]] = []  # where the text can be cut, and what closes it there
    in_string = escaped = False
    for position, character in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            closers.append("]" if character == "[" else "}")
            if len(closers) > _MAX_DEPTH:
                return text
            ends.append((position + 1, "".join(reversed(closers))))
        elif character in "]}":
            if not closers or closers.pop() != character:
                return text
            ends.append((position + 1, "".join(reversed(closers))))
        elif character == ",":
            ends.append((position, "".join(reversed(closers))))
    if not closers:  # its end is there, so it is no JSON
        return text
    for end, closing in reversed(ends[-8:]):
        try:
            return json.loads(text[:end] + closing) or text
        except (ValueError, RecursionError):
            continue
    return text


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content[:_MAX_TEXT]
    if isinstance(content, Sequence):
        parts = (part.get("text", "") for part in content if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))[:_MAX_TEXT]
    return ""


def _arguments(arguments: Any) -> Mapping[str, Any] | None:
    if isinstance(arguments, Mapping):
        return arguments
    try:
        return parse_arguments(arguments)
    except (TypeError, ValueError):
        return None
