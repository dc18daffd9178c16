"""Texts of requests and answers as attributes of spans, for users who opt in to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...request.options import Message, Prompt
from ...request.raw_prompt import RawPrompt
from .generation import Generation


def input_messages(prompt: Prompt) -> str:
    """Return a prompt as JSON in the format of ``gen_ai.input.messages``; a raw one of tokens has no text."""
    if isinstance(prompt, RawPrompt):
        content = prompt.content
        return _json([{"role": "user", "parts": [_text(content)] if isinstance(content, str) else []}])
    return _json([{"role": message.get("role"), "parts": _parts(message)} for message in prompt])


def output_messages(generation: Generation) -> str:
    """Return an answer as JSON in the format of ``gen_ai.output.messages``."""
    parts = [_text(generation.text)] if generation.text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in generation.tool_calls
    ]
    return _json([{"role": "assistant", "parts": parts, "finish_reason": generation.finish_reason}])


def _parts(message: Message) -> list[dict[str, Any]]:
    content = message.get("content")
    if message.get("role") == "tool":
        return [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}]
    parts: list[dict[str, Any]] = []
    if isinstance(content, str):
        parts.append(_text(content))
    elif content:
        parts += [dict(part) for part in content if isinstance(part, Mapping)]
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        called = {"name": function.get("name"), "arguments": function.get("arguments")}
        parts.append({"type": "tool_call", "id": call.get("id"), **called})
    return parts


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _json(messages: list[dict[str, Any]]) -> str:
    return json.dumps(messages, ensure_ascii=False, default=str)
