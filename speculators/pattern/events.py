"""A conversation as the pattern speculator reads it: messages, calls and results, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentrt.calls import parse_arguments

from .tool_output import parse_tool_output

_MAX_EVENTS = 80
_MAX_TEXT = 20_000
_MAX_SYSTEM_PROMPT = 4_000
SYSTEM_PROMPT = "system prompt"
"""The tool name under which a system prompt counts as a result."""


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """A text message of the user, or of the model if ``by_model``."""

    text: str
    by_model: bool


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A tool call of the model; ``arguments`` is None if they cannot be parsed."""

    tool: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """The result of a call of ``tool``; ``value`` is the parsed JSON, or the text itself."""

    tool: str
    value: Any


Event: TypeAlias = MessageEvent | CallEvent | ResultEvent


def read_events(messages: Sequence[Mapping[str, Any]]) -> list[Event]:
    """Return the events of a conversation in OpenAI's shape: the first two and the last ones, at most 80.

    Messages of an unexpected shape are left out.
    """
    tools: dict[str, str] = {}
    events = [event for message in messages for event in _events_of(message, tools)]
    if len(events) > _MAX_EVENTS:
        return [*events[:2], *events[2 - _MAX_EVENTS :]]
    return events


def _events_of(message: Mapping[str, Any], tools: dict[str, str]) -> Iterator[Event]:
    """Yield the events of one message; ``tools`` maps ids of calls to the names of their tools."""
    role = message.get("role")
    if role in ("system", "developer"):  # like the result of looking up the user and the date
        yield ResultEvent(SYSTEM_PROMPT, _text(message.get("content"))[:_MAX_SYSTEM_PROMPT])
    if role in ("user", "assistant"):
        text = _text(message.get("content"))
        if text:
            yield MessageEvent(text, by_model=role == "assistant")
    if role == "assistant":
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            name = str(function.get("name"))
            tools[str(call.get("id"))] = name
            yield CallEvent(name, _arguments(function.get("arguments")))
    elif role == "tool":
        name = tools.get(str(message.get("tool_call_id")), "")
        yield ResultEvent(name, parse_tool_output(_text(message.get("content"))))


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
