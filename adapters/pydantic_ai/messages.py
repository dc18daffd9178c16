"""Histories, tools and answers of pydantic-ai in the shape that predictors take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from agentrt import ToolCall


def openai_messages(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Convert a history to messages of chat completions, without files, thoughts and native tools."""
    converted = [each for message in messages for each in _converted(message)]
    requests = (message for message in reversed(messages) if isinstance(message, ModelRequest))
    instructions = next((request.instructions for request in requests), None)
    return [{"role": "system", "content": instructions}, *converted] if instructions else converted


def function_schemas(parameters: ModelRequestParameters) -> list[dict[str, Any]]:
    """Return the function tools of a request as those of chat completions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.parameters_json_schema,
            },
        }
        for tool in parameters.function_tools
    ]


def calls_of(response: ModelResponse, parameters: ModelRequestParameters) -> list[ToolCall]:
    """Return the calls of function tools in an answer, without those whose arguments are no JSON object."""
    outputs = {tool.name for tool in parameters.output_tools}
    calls = []
    for part in response.tool_calls:
        if part.tool_name not in outputs:
            with suppress(ValueError, AssertionError):
                arguments = part.args_as_dict(raise_if_invalid=True)
                calls.append(ToolCall(part.tool_name, arguments, part.tool_call_id))
    return calls


def answered_ids(messages: Sequence[ModelMessage]) -> tuple[list[str], list[str]]:
    """Return the ids of the calls with a result after the last answer, and of those with anything else.

    Anything else is a denial, invalid arguments, or an error that the model has to mend.
    """
    answered: list[str] = []
    rejected: list[str] = []
    for message in reversed(messages):
        if not isinstance(message, ModelRequest):
            break
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                (answered if part.outcome == "success" else rejected).append(part.tool_call_id)
    return answered, rejected


def _converted(message: ModelMessage) -> Iterator[dict[str, Any]]:
    if isinstance(message, ModelResponse):
        yield _answer(message)
        return
    for part in message.parts:
        match part:
            case SystemPromptPart(content=text):
                yield {"role": "system", "content": text}
            case UserPromptPart(content=content):
                yield {"role": "user", "content": _text(content)}
            case ToolReturnPart():
                result = part.model_response_str()
                yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": result}
            case _ if hasattr(part, "model_response"):  # what the model has to do better
                yield {"role": "user", "content": part.model_response()}


def _answer(response: ModelResponse) -> dict[str, Any]:
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return {**message, "tool_calls": calls} if calls else message


def _text(content: str | Sequence[Any]) -> str:
    if isinstance(content, str):
        return content
    pieces = [piece if isinstance(piece, str) else getattr(piece, "content", None) for piece in content]
    return "\n".join(piece for piece in pieces if isinstance(piece, str))
