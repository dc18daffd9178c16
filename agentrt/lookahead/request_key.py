"""Equality of model requests, apart from the ids of the calls in their history."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..calls import parse_arguments

_EMPTY: tuple[Any, ...] = (None, "", [], {})


def request_key(messages: Sequence[Mapping[str, Any]], options: object) -> str:
    """Return a digest that is equal for equal requests; messages are in the shape of chat completions.

    Calls are identified by their position, because a server gives them new ids for each answer. A field that
    is missing equals one that is empty: None, no text or no items.
    """
    positions: dict[Any, tuple[int, int]] = {}
    normalized = []
    for number, message in enumerate(messages):
        fields = {name: value for name, value in message.items() if value not in _EMPTY}
        if calls := fields.pop("tool_calls", ()):
            positions.update((call.get("id"), (number, place)) for place, call in enumerate(calls))
            fields["calls"] = [_without_id(call) for call in calls]
        if "tool_call_id" in fields:
            fields["answers"] = positions.get(fields.pop("tool_call_id"))
        normalized.append(fields)
    text = json.dumps([normalized, options], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_id(call: Mapping[str, Any]) -> Any:
    function = call.get("function")
    if function is None:
        return {name: value for name, value in call.items() if name != "id"}
    with suppress(ValueError):
        return function["name"], parse_arguments(function["arguments"])
    return function["name"], function["arguments"]
