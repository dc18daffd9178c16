"""OpenAI's requests as what predictors are shown: chat messages and function tools."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from openai.types.responses import Response

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest

_MAX_REMEMBERED = 256


def chat_request(body: Mapping[str, Any], samples: int) -> DraftRequest:
    """Return what a request of chat completions asks."""
    tools = [tool for tool in body["tools"] if tool.get("type") == "function"]
    return DraftRequest(list(body["messages"]), tools, samples)


def after_answered(
    path: str, body: Mapping[str, Any], answered: Sequence[tuple[ToolCall, str]]
) -> dict[str, Any]:
    """Return ``body`` as it would be if the client had made these calls of one answer and asked again."""
    texts = [json.dumps(dict(call.arguments), ensure_ascii=False) for call, _ in answered]
    if path == "/chat/completions":
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}
            for (call, _), text in zip(answered, texts, strict=True)
        ]
        results = [{"role": "tool", "tool_call_id": call.id, "content": output} for call, output in answered]
        made = {"role": "assistant", "content": None, "tool_calls": calls}
        return {**body, "messages": [*body["messages"], made, *results]}
    items = _items_of(body)
    for (call, _), text in zip(answered, texts, strict=True):
        items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": text})
    for call, output in answered:
        items.append({"type": "function_call_output", "call_id": call.id, "output": output})
    return {**body, "input": items}


def history_of(path: str, body: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]:
    """Return the history in ``body``, its calls in the shape of chat completions, and what else is in there.

    Nothing is left out but what the server has numbered: the ids and states of the items that are calls.
    """
    name = "messages" if path == "/chat/completions" else "input"
    rest = {key: value for key, value in body.items() if key != name}
    if name == "messages":
        return body[name], rest
    history = []
    for item in _items_of(body):
        match item.get("type"):
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                history.append({"tool_calls": [{"id": item["call_id"], "function": function}]})
            case "function_call_output":
                history.append({"tool_call_id": item["call_id"], "content": item["output"]})
            case _:
                history.append(item)
    return history, rest


def _items_of(body: Mapping[str, Any]) -> list[Any]:
    """The input of a request of responses as a list, which a text is short for."""
    given = body.get("input") or ()
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


class ResponseHistory:
    """What came before the responses that requests go on from by ``previous_response_id``.

    Thread-safe, bounded. The server keeps it, but the predictors must be shown it. Of a conversation that
    began elsewhere they see what is new.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._lock = threading.Lock()
        self._messages: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()

    def request(self, body: Mapping[str, Any], samples: int) -> DraftRequest:
        """Return what a request of responses asks."""
        tools = [
            {
                "type": "function",
                "function": {
                    key: tool[key] for key in ("name", "description", "parameters") if tool.get(key)
                },
            }
            for tool in body["tools"]
            if tool.get("type") == "function"
        ]
        messages = self._messages_of(body)
        if body.get("instructions"):
            messages.insert(0, {"role": "system", "content": body["instructions"]})
        return DraftRequest(messages, tools, samples)

    def remember(self, body: Mapping[str, Any], answer: Response) -> None:
        """Keep what was asked and answered."""
        messages = self._messages_of(body)
        messages += _chat_messages([item.model_dump(mode="json") for item in answer.output])
        with self._lock:
            self._messages[answer.id] = messages
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
