"""Bodies of requests for messages: read as chat messages and function tools, and continued by a call."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from anthropic._types import NotGiven, Omit
from pydantic import BaseModel

from agentrt import DraftRequest

from ..stainless.wire import Answered, Body

Block = Mapping[str, Any]

_MAX_REMEMBERED: Final = 256
_CHAT_FIELDS: Final = ("role", "tool_calls", "tool_call_id")


def given_in(body: Body) -> dict[str, Any]:
    """Return the fields that are given, as JSON: blocks of an answer are objects of the client's classes."""
    fields: dict[str, Any] = _plain(body)
    return fields


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if not isinstance(each, (NotGiven, Omit))}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(each) for each in value]
    return value


def history(fields: Body) -> list[dict[str, Any]]:
    """Return the messages as those of chat completions, in which each result is a message of its own.

    Content other than calls and results stays a list of blocks.
    """
    messages: list[dict[str, Any]] = []
    for message in fields["messages"]:
        blocks = _blocks(message["content"])
        other = [block for block in blocks if block.get("type") not in ("tool_use", "tool_result")]
        calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
        for block in blocks:
            if block.get("type") == "tool_result":
                messages.append(_result(block))
        if calls or other:
            made = {"tool_calls": calls} if calls else {}
            messages.append({**message, "content": other, **made})
    return messages


def draft_request(fields: Body) -> DraftRequest:
    """Return the request in the form that predictors take: contents are their texts."""
    messages = [
        {
            **{name: message[name] for name in _CHAT_FIELDS if name in message},
            "content": _text(message["content"]),
        }
        for message in history(fields)
    ]
    if system := _text(_blocks(fields.get("system") or "")):
        messages.insert(0, {"role": "system", "content": system})
    tools = [_function(tool) for tool in fields.get("tools") or () if "input_schema" in tool]
    return DraftRequest(messages, tools)


def answered_ids(fields: Body) -> list[str]:
    """Return the ids of the calls whose results end the history; of one that nobody understands, none."""
    messages = fields.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    blocks = last.get("content") if isinstance(last, Mapping) and last.get("role") == "user" else None
    return [
        block.get("tool_use_id") or ""
        for block in (blocks if isinstance(blocks, list) else ())
        if isinstance(block, Mapping) and block.get("type") == "tool_result"
    ]


class Threads:
    """What the server holds of message threads, whose requests have what is new. Thread-safe, bounded.

    Of a thread that began elsewhere it has nothing.
    """

    def __init__(self) -> None:
        """Create an empty history."""
        self._lock = threading.Lock()
        self._fields: OrderedDict[str, Body] = OrderedDict()
        """Of each request, with its answer at the end of the messages, by the id of that."""

    def whole(self, fields: Body) -> Body:
        """Return the fields of a request with those of the thread that it continues."""
        thread = fields.get("thread")
        if not isinstance(thread, Mapping) or thread.get("type") != "continue":
            return fields
        with self._lock:
            known = self._fields.get(thread.get("previous_message_id") or "", {"messages": []})
        return {**known, **fields, "messages": [*known["messages"], *(fields.get("messages") or ())]}

    def remember(self, fields: Body, message_id: str, content: Sequence[Block]) -> None:
        """Keep a request and ``content`` as its answer, if a thread can continue with that."""
        if not fields.get("thread"):
            return
        messages = [*fields["messages"], {"role": "assistant", "content": content}]
        with self._lock:
            self._fields[message_id] = {**fields, "messages": messages}
            if len(self._fields) > _MAX_REMEMBERED:
                self._fields.popitem(last=False)


def body_after_calls(body: Body, answered: Answered) -> dict[str, Any]:
    """Return the body of the request that follows an answer with these calls, given with their results."""
    made = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call, _ in answered
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": output} for call, output in answered
    ]
    answer = [{"role": "assistant", "content": made}, {"role": "user", "content": results}]
    return {**body, "messages": [*body["messages"], *answer]}


def _blocks(content: Any) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _text(blocks: Sequence[Block]) -> str:
    return "".join(block["text"] for block in blocks if block.get("type") == "text")


def _call(block: Block) -> dict[str, Any]:
    arguments = json.dumps(block["input"], ensure_ascii=False)
    function = {"name": block["name"], "arguments": arguments}
    return {"id": block["id"], "type": "function", "function": function}


def _result(block: Block) -> dict[str, Any]:
    rest = {name: value for name, value in block.items() if name not in ("type", "tool_use_id", "content")}
    content = _blocks(block.get("content") or "")
    return {**rest, "role": "tool", "tool_call_id": block["tool_use_id"], "content": content}


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}
