"""The responses API as predictors see it: chat messages, function tools and events of an answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from agentrt import DraftRequest
from agentrt.calls import CallArgumentsDelta, CallStarted, ParserEvent, TextDelta

_MAX_REMEMBERED = 256


class ResponseHistory:
    """The histories of responses that requests continue by ``previous_response_id``.

    The server keeps them; the predictors must be given them. Of a conversation that began elsewhere the
    history has only what is new. Thread-safe and bounded.
    """

    def __init__(self) -> None:
        """Create an empty history."""
        self._lock = threading.Lock()
        self._messages: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()

    def draft_request(self, body: Mapping[str, Any]) -> DraftRequest:
        """Return the request in ``body`` for the predictors."""
        tools = [
            {
                "type": "function",
                "function": {
                    key: tool[key] for key in ("name", "description", "parameters") if tool.get(key)
                },
            }
            for tool in body.get("tools") or ()
            if tool.get("type") == "function"
        ]
        messages = self._messages_of(body)
        if body.get("instructions"):
            messages.insert(0, {"role": "system", "content": body["instructions"]})
        return DraftRequest(messages, tools)

    def remember(self, body: Mapping[str, Any], response_id: str, output: Sequence[BaseModel]) -> None:
        """Keep a request and the items of its response, for requests that continue the response."""
        messages = self._messages_of(body)
        messages += _chat_messages([item.model_dump(mode="json") for item in output])
        with self._lock:
            self._messages[response_id] = messages
            if len(self._messages) > _MAX_REMEMBERED:
                self._messages.popitem(last=False)

    def _messages_of(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            known = list(self._messages.get(body.get("previous_response_id") or "", ()))
        return known + _chat_messages(body.get("input") or ())


def _chat_messages(items: Any) -> list[dict[str, Any]]:
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    messages: list[dict[str, Any]] = []
    for item in items:
        match item.get("type", "message"):
            case "message":
                messages.append({"role": item["role"], "content": _text(item["content"])})
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"id": item["call_id"], "type": "function", "function": function}
                if messages and messages[-1].get("tool_calls"):  # one answer, several calls
                    messages[-1]["tool_calls"].append(call)
                else:
                    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            case "function_call_output":
                output = _text(item["output"])
                messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": output})
    return messages


def _text(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


class ResponseEvents:
    """Translates the events of one response; calls are numbered in the order in which they begin."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._positions: dict[int, int] = {}

    def read(self, event: Any) -> Iterator[ParserEvent]:
        """Read the next event; those that are neither text nor part of a call yield nothing."""
        match event.type:
            case "response.output_text.delta":
                yield TextDelta(event.delta)
            case "response.output_item.added" if event.item.type == "function_call":
                position = self._positions[event.output_index] = len(self._positions)
                yield CallStarted(position, event.item.name)
            case "response.function_call_arguments.delta" if event.output_index in self._positions:
                yield CallArgumentsDelta(self._positions[event.output_index], event.delta)
