"""LangChain messages in the shape of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages

from agentrt.calls import ToolCall


def openai_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Convert a history. Calls that the model's server has answered are turns of tools like any other."""
    converted = convert_to_openai_messages(in_turns(messages))
    return converted if isinstance(converted, list) else [converted]


def in_turns(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the history as if all calls in it had been made by the client."""
    return [part for message in messages for part in _turns(message)]


def answered_blocks(call: ToolCall, output: str) -> list[str | dict[str, Any]]:
    """Return a call that the model's server has answered as blocks of a message, which goes on behind it."""
    return [
        {"type": "server_tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)},
        {"type": "server_tool_result", "tool_call_id": call.id, "status": "success", "output": output},
    ]


def _turns(message: BaseMessage) -> list[BaseMessage]:
    content = message.content
    if not isinstance(message, AIMessage) or not isinstance(content, list):
        return [message]
    turns: list[BaseMessage] = []
    text = ""
    calls: list[Any] = []
    results: list[BaseMessage] = []

    def close() -> None:
        nonlocal text
        if results:
            turns.extend([AIMessage(text, tool_calls=list(calls)), *results])
            text = ""
            calls.clear()
            results.clear()

    for block in content:
        kind = "text" if isinstance(block, str) else block.get("type")
        if kind != "server_tool_result":
            close()
        if isinstance(block, str):
            text += block
        elif kind == "text":
            text += block["text"]
        elif kind == "server_tool_call":
            calls.append({"name": block["name"], "args": block["args"], "id": block["id"]})
        elif kind == "server_tool_result":
            results.append(ToolMessage(block["output"], tool_call_id=block["tool_call_id"]))
        else:
            return [message]  # something that only its maker understands
    close()
    if not turns:
        return [message]
    return [*turns, AIMessage(text, tool_calls=message.tool_calls)] if text or message.tool_calls else turns
