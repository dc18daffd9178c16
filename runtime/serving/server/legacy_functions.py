"""``functions`` and ``function_call``: what ``tools`` and ``tool_choice`` were called before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...request.field_names import renamed

_CALL: Final = re.compile(r"messages\[(\d+)\]\.tool_calls\[0\](\.function)?")
_FUNCTION: Final = re.compile(r"tools(\[\d+\])(\.function)?")


def tools_of(functions: Sequence[Any]) -> list[Any]:
    """Return functions as tools."""
    return [{"type": "function", "function": function} for function in functions]


def tool_choice_of(function_call: str | Mapping[str, Any] | None) -> Any:
    """Return ``function_call`` as a tool choice."""
    if not isinstance(function_call, Mapping):
        return function_call
    return {"type": "function", "function": function_call}


def tool_messages(messages: Sequence[Any]) -> list[Any]:
    """Return messages with tool calls in the place of function calls, and tool outputs of function messages.

    A function message has the output of the last call before it: neither has an id.
    """
    converted: list[Any] = []
    id = "call_0"
    for index, message in enumerate(messages):
        call = message.get("function_call") if isinstance(message, Mapping) else None
        if call is not None and message.get("role") == "assistant":
            id = f"call_{index}"
            others = {key: value for key, value in message.items() if key != "function_call"}
            others["tool_calls"] = [{"id": id, "type": "function", "function": call}]
            converted.append(others)
        elif isinstance(message, Mapping) and message.get("role") == "function":
            converted.append({**message, "role": "tool", "tool_call_id": id})
        else:
            converted.append(message)
    return converted


def function_field(field: str) -> str:
    """Return what a field of tools, or of a tool choice, is called where they are functions."""
    field = _FUNCTION.sub(r"functions\1", field)
    return renamed(field, {"tools": "functions", "tool_choice": "function_call"})


def message_field(field: str, messages: Sequence[Any]) -> str:
    """Return what a field of :func:`tool_messages` is called in ``messages``, perhaps in the older form."""
    call = _CALL.match(field)
    if call is None or "function_call" not in messages[int(call[1])]:
        return field
    return f"messages[{call[1]}].function_call{field[call.end() :]}"
