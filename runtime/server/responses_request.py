"""The body of ``POST /v1/responses``, and its items as the messages they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..http.errors import ApiError
from ..request.options import GenerationOptions
from .common_request import Asked

_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})


class TextOptions(BaseModel):
    """What the answer's text must be."""

    model_config = ConfigDict(strict=True, extra="ignore")

    format: dict[str, Any] | None = None


class ResponsesRequest(Asked):
    """OpenAI's fields, as far as one stateless model can answer to them."""

    input: str | list[Any]
    instructions: str | None = None
    max_output_tokens: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: TextOptions | None = None
    metadata: dict[str, str] | None = None
    include: list[str] | None = None
    previous_response_id: None = None
    """Nothing is stored: send the whole conversation."""
    conversation: None = None
    """Nothing is stored: send the whole conversation."""
    background: Literal[False] | None = None

    @property
    def wants_logprobs(self) -> bool:
        """Whether probabilities are to be told."""
        return "message.output_text.logprobs" in (self.include or ())

    def options(self) -> GenerationOptions:
        """What the runtime is asked."""
        options = self.numbers()
        options["tools"] = None if self.tools is None else [_nested(tool) for tool in self.tools]
        options["tool_choice"] = (
            _nested(self.tool_choice) if isinstance(self.tool_choice, dict) else self.tool_choice
        )
        options["response_format"] = _response_format(self.text)
        options["max_tokens"] = self.max_output_tokens
        if self.wants_logprobs:
            options["logprobs"] = self.top_logprobs or 0
        return options

    def messages(self) -> list[Any]:
        """Instructions and input as chat messages."""
        messages: list[Any] = []
        if self.instructions:
            messages.append({"role": "system", "content": self.instructions})
        if isinstance(self.input, str):
            return [*messages, {"role": "user", "content": self.input}]
        for index, item in enumerate(self.input):
            _append(messages, item, f"input[{index}]")
        return messages


def _nested(tool: Any) -> Any:
    """A function as responses have it, flat, in the shape of chat completions."""
    if isinstance(tool, Mapping) and tool.get("type") == "function" and "function" not in tool:
        kept = ("name", "description", "parameters", "strict")
        return {"type": "function", "function": {key: tool[key] for key in kept if key in tool}}
    return tool


def _response_format(text: TextOptions | None) -> dict[str, Any] | None:
    if text is None or text.format is None:
        return None
    kind = text.format.get("type")
    return {"type": kind, "json_schema": text.format} if kind == "json_schema" else text.format


def _append(messages: list[Any], item: Any, field: str) -> None:
    kind = item.get("type", "message") if isinstance(item, Mapping) else None
    if kind == "message":
        messages.append({"role": item.get("role"), "content": _content(item.get("content"))})
    elif kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        # What the model said in one turn is one message: its text, then its calls.
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": ""})
        messages[-1].setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        content = _content(item.get("output"))
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
    elif kind != "reasoning":  # that of an earlier turn is not shown to the model again
        raise ApiError(
            400,
            f"{field}: items of type {kind!r} are not understood. Use message, function_call and "
            "function_call_output.",
            param=field,
            code="invalid_value",
        )


def _content(content: Any) -> Any:
    """Content with its parts named as in chat completions; what is no text is left for the check to name."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "text", "text": part.get("text")}
        if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS
        else part
        for part in content
    ]
