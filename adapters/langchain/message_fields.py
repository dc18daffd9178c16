"""The fields of LangChain messages by which model requests are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentrt.calls import parse_arguments


def message_fields(message: BaseMessage) -> Mapping[str, Any]:
    """Return the fields of a message that LangChain sends to a model, its calls in OpenAI's shape.

    Bookkeeping such as ids of messages, usage and response metadata is left out.
    """
    kwargs = {name: value for name, value in message.additional_kwargs.items() if name != "tool_calls"}
    fields: dict[str, Any] = {"role": message.type, "content": _content(message), "name": message.name}
    fields["more"] = {name: value for name, value in kwargs.items() if value is not None} or None
    if isinstance(message, AIMessage) and message.tool_calls:
        fields["tool_calls"] = [
            {
                "id": call["id"],
                "function": {"name": call["name"], "arguments": json.dumps(call["args"], default=repr)},
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        fields |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return fields


def _content(message: BaseMessage) -> Any:
    """The content of a message without the blocks that repeat its calls, as some providers write them."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return message.content
    calls = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    return [part for part in message.content if isinstance(part, str) or _call_in(part) not in calls]


def _call_in(block: Mapping[str, Any]) -> tuple[Any, Any, Any] | None:
    """The (id, name, arguments) of a content block that holds a tool call; None for any other block."""
    if block.get("type") not in ("tool_call", "tool_use", "function_call"):
        return None
    arguments: Any = next((block[name] for name in ("args", "input", "arguments") if block.get(name)), {})
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = parse_arguments(arguments)
    return block.get("call_id", block.get("id")), block.get("name"), arguments
