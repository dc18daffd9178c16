"""The request of the main model that turn-ahead can send before it is due, and when two are equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from ..calls import ToolCall, parse_arguments
from ..drafts import DraftRequest, Speculator

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


class ModelRequest(Protocol):
    """One request of the main model, as an adapter can send it, when it is due or ahead of that."""

    @property
    def key(self) -> str:
        """Equal for requests that are equal but for the ids of calls."""

    @property
    def predictors(self) -> Sequence[Speculator]:
        """The predictors of the calls in the answer."""

    def request(self) -> DraftRequest:
        """Return the request in the form that predictors take."""

    def after(self, call: ToolCall, result: Any) -> ModelRequest | None:
        """Return the next request if the model makes only this call, with this result; None if unknown."""

    def stream(self) -> AsyncGenerator[Any, None] | Generator[Any, None, None]:
        """Send the request and yield the answer, in pieces if it is streamed.

        A generator that is not async blocks, and runs in a thread of its own.
        """


def after_draft(request: DraftRequest, call: ToolCall) -> DraftRequest:
    """Return what look-ahead predictors take: the history with ``call`` made, without its result."""
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)}
    made = {"id": f"ahead_{len(request.messages)}", "type": "function", "function": function}
    message = {"role": "assistant", "content": "", "tool_calls": [made]}
    return replace(request, messages=[*request.messages, message], ahead=True)
