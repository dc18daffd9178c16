"""When are two requests of a chat model the same, apart from the ids of the calls in their history?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..calls import parse_arguments

_NOTHING: tuple[Any, ...] = (None, "", [], {})


def request_key(messages: Sequence[Mapping[str, Any]], options: object) -> str:
    """Return a digest that is equal for equal requests; messages are in the shape of chat completions.

    Calls are known by their place: a server gives them new ids each time it is asked. What a message leaves
    out and what it has as nothing (None, no text, no items) are the same.
    """
    places: dict[Any, tuple[int, int]] = {}
    told = []
    for number, message in enumerate(messages):
        part = {name: value for name, value in message.items() if value not in _NOTHING}
        if calls := part.pop("tool_calls", ()):
            places.update((call.get("id"), (number, place)) for place, call in enumerate(calls))
            part["calls"] = [_told(call) for call in calls]
        if "tool_call_id" in part:
            part["answers"] = places.get(part.pop("tool_call_id"))
        told.append(part)
    text = json.dumps([told, options], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _told(call: Mapping[str, Any]) -> Any:
    function = call.get("function")
    if function is None:
        return {name: value for name, value in call.items() if name != "id"}
    with suppress(ValueError):
        return function["name"], parse_arguments(function["arguments"])
    return function["name"], function["arguments"]
