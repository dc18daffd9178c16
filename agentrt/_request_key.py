"""When are two requests of a chat model the same, apart from the ids of the calls in their history?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from .calls import parse_arguments


def request_key(messages: Sequence[Mapping[str, Any]], options: object) -> str:
    """Return a text that is equal for equal requests; messages are in the shape of chat completions.

    Calls are known by their place: a server gives them new ids each time it is asked. What a message leaves
    out and what it has as None are the same.
    """
    places: dict[str, tuple[int, int]] = {}
    told = []
    for number, message in enumerate(messages):
        part = {name: value for name, value in message.items() if value is not None and value != ""}
        if calls := part.pop("tool_calls", ()):
            places.update((call["id"], (number, place)) for place, call in enumerate(calls))
            part["calls"] = [(call["function"]["name"], _arguments(call)) for call in calls]
        if "tool_call_id" in part:
            part["answers"] = places.get(part.pop("tool_call_id"))
        told.append(part)
    return json.dumps([told, options], sort_keys=True, default=repr)


def _arguments(call: Mapping[str, Any]) -> Any:
    text = call["function"]["arguments"]
    with suppress(ValueError):
        return parse_arguments(text)
    return text
