"""Bodies of model requests, of chat completions and of the responses API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from agentrt import ToolCall
from agentrt.adapting import answered_ids as answered_in_messages
from agentrt.dialects import CHAT_COMPLETIONS

_RESULT = "function_call_output"


def body_after_calls(
    path: str, body: Mapping[str, Any], answered: Sequence[tuple[ToolCall, str]]
) -> dict[str, Any]:
    """Return the body of the request that follows an answer with these calls, given with their results."""
    texts = [json.dumps(dict(call.arguments), ensure_ascii=False) for call, _ in answered]
    if path == CHAT_COMPLETIONS:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}
            for (call, _), text in zip(answered, texts, strict=True)
        ]
        results = [{"role": "tool", "tool_call_id": call.id, "content": output} for call, output in answered]
        answer = {"role": "assistant", "content": None, "tool_calls": calls}
        return {**body, "messages": [*body["messages"], answer, *results]}
    items = _input_items(body)
    for (call, _), text in zip(answered, texts, strict=True):
        items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": text})
    for call, output in answered:
        items.append({"type": "function_call_output", "call_id": call.id, "output": output})
    return {**body, "input": items}


def answered_ids(path: str, body: Mapping[str, Any]) -> list[str]:
    """Return the ids of the calls whose results end the history in ``body``."""
    if path == CHAT_COMPLETIONS:
        messages = body.get("messages")
        return answered_in_messages(messages) if isinstance(messages, list) else []
    items = reversed(_input_items(body))
    results = takewhile(lambda item: isinstance(item, Mapping) and item.get("type") == _RESULT, items)
    return [item.get("call_id") or "" for item in results]


def history_and_rest(
    path: str, body: Mapping[str, Any]
) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]:
    """Return the history in ``body``, with calls in the shape of chat completions, and the other fields.

    Only what the server numbers is left out: ids and states of items that are calls or their results.
    """
    name = "messages" if path == CHAT_COMPLETIONS else "input"
    rest = {key: value for key, value in body.items() if key != name}
    if name == "messages":
        return body[name], rest
    history = []
    for item in _input_items(body):
        match item.get("type"):
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                history.append({"tool_calls": [{"id": item["call_id"], "function": function}]})
            case "function_call_output":
                history.append({"tool_call_id": item["call_id"], "content": item["output"]})
            case _:
                history.append(item)
    return history, rest


def _input_items(body: Mapping[str, Any]) -> list[Any]:
    """Return the input of a responses request as a list; a text stands for one message of the user."""
    given = body.get("input") or ()
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
