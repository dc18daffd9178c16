"""The calls of a LangChain chat model, as they are made ahead of their turn."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentrt.calls import ToolCall, parse_arguments
from agentrt.drafts import DraftRequest, Speculator
from agentrt.lookahead.request_key import request_key
from agentrt.toolcache import result_text

from .messages import openai_messages

Ask = Callable[[Sequence[BaseMessage]], AsyncGenerator[Any, None]]
PredictorsFor = Callable[[Sequence[BaseMessage]], Sequence[Speculator]]


@dataclass(frozen=True)
class ChatRequest:
    """One call by one of the model's doors; see :class:`agentrt.lookahead.request.ModelRequest`.

    ``asked_by`` is the method of the model, and which model it is and how it is set, in the words by which
    LangChain tells models apart to cache answers.
    """

    messages: Sequence[BaseMessage]
    options: Mapping[str, Any]
    schemas: Sequence[Mapping[str, Any]]
    samples: int
    asked_by: tuple[str, str]
    send: Ask
    predictors_for: PredictorsFor

    @cached_property
    def predictors(self) -> Sequence[Speculator]:
        """Made for these messages."""
        return self.predictors_for(self.messages)

    @cached_property
    def key(self) -> str:
        """Of all that LangChain hands to the model; what it keeps about messages besides does not count."""
        told = [_told(message) for message in self.messages]
        return request_key(told, [self.asked_by, self.options])

    def request(self) -> DraftRequest:
        """The messages in OpenAI's shape."""
        return DraftRequest(openai_messages(self.messages), self.schemas, self.samples)

    def after(self, call: ToolCall, result: Any) -> ChatRequest | None:
        """Add the call and its result, told as a tool node tells it."""
        content = result_text(result)
        if content is None:
            return None
        call_id = f"ahead_{len(self.messages)}"
        made = {"name": call.name, "args": dict(call.arguments), "id": call_id, "type": "tool_call"}
        answer = AIMessage(content="", tool_calls=[made])
        told = ToolMessage(content=content, name=call.name, tool_call_id=call_id)
        return replace(self, messages=[*self.messages, answer, told])

    def stream(self) -> AsyncGenerator[Any, None]:
        """Yield what the door yields; a whole answer is one piece."""
        return self.send(self.messages)


def _told(message: BaseMessage) -> Mapping[str, Any]:
    kept = {name: value for name, value in message.additional_kwargs.items() if name != "tool_calls"}
    told: dict[str, Any] = {"role": message.type, "content": _said(message), "name": message.name}
    told["more"] = {name: value for name, value in kept.items() if value is not None} or None
    if isinstance(message, AIMessage) and message.tool_calls:
        told["tool_calls"] = [
            {
                "id": call["id"],
                "function": {"name": call["name"], "arguments": json.dumps(call["args"], default=repr)},
            }
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        told |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return told


def _said(message: BaseMessage) -> Any:
    """What a message says, without what repeats its calls: some providers have them in the content, too."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return message.content
    calls = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    return [part for part in message.content if isinstance(part, str) or _call_in(part) not in calls]


def _call_in(block: Mapping[str, Any]) -> tuple[Any, Any, Any] | None:
    """The id, name and arguments of a call among the blocks of a message, if it is one."""
    if block.get("type") not in ("tool_call", "tool_use", "function_call"):
        return None
    arguments: Any = next((block[name] for name in ("args", "input", "arguments") if block.get(name)), {})
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = parse_arguments(arguments)
    return block.get("call_id", block.get("id")), block.get("name"), arguments
