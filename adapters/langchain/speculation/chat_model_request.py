"""A request to a LangChain chat model that can be sent ahead of its turn."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentrt import DraftRequest, Priority, ToolCall, current_priority
from agentrt.adapting import current_scope, request_key, within_scope
from agentrt.calls import parse_arguments
from agentrt.drafts import Speculator
from agentrt.toolcache import result_text

from ..messages import openai_messages
from .model_state import agenerate_within, generate_within, inside_turn_of


class ModelMethod(StrEnum):
    """One of the four methods that a chat model may implement, by its name."""

    GENERATE = "_generate"
    AGENERATE = "_agenerate"
    STREAM = "_stream"
    ASTREAM = "_astream"

    @property
    def is_async(self) -> bool:
        """Whether the method runs on the caller's event loop."""
        return self in (ModelMethod.AGENERATE, ModelMethod.ASTREAM)

    @property
    def is_streamed(self) -> bool:
        """Whether the method yields chunks, not one result."""
        return self in (ModelMethod.STREAM, ModelMethod.ASTREAM)


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


PredictorsFor = Callable[[Sequence[BaseMessage]], Sequence[Speculator]]


@dataclass(frozen=True)
class ChatModelRequest:
    """One request by one method of the model; a :class:`agentrt.adapting.ModelRequest`.

    ``send`` is that method of the user's model, without speculation. ``model_key`` tells the model and its
    settings from others, as LangChain does to cache answers. ``scope`` is the run that the request is for.
    """

    model: Any
    method: ModelMethod
    send: Callable[..., Any]
    model_key: str
    messages: Sequence[BaseMessage]
    options: Mapping[str, Any]
    schemas: Sequence[Mapping[str, Any]]
    predictors_for: PredictorsFor
    priority: Priority = field(default_factory=current_priority)
    scope: Hashable | None = field(default_factory=current_scope)

    @cached_property
    def predictors(self) -> Sequence[Speculator]:
        """The predictors for these messages."""
        return self.predictors_for(self.messages)

    @cached_property
    def key(self) -> str:
        """Equal for equal messages, options, method, model and priority; ids of calls may differ."""
        fields = [message_fields(message) for message in self.messages]
        return request_key(fields, [(self.method.value, self.model_key, self.priority), self.options])

    def request(self) -> DraftRequest:
        """Return the messages and tools in OpenAI's shape, for the predictors."""
        return DraftRequest(openai_messages(self.messages), self.schemas)

    def after(self, call: ToolCall, result: Any) -> ChatModelRequest | None:
        """Return the request that follows this call and result; None if the result is not text or JSON."""
        content = result_text(result)
        if content is None:
            return None
        call_id = f"ahead_{len(self.messages)}"
        made = {"name": call.name, "args": dict(call.arguments), "id": call_id, "type": "tool_call"}
        answer = AIMessage(content="", tool_calls=[made])
        output = ToolMessage(content=content, name=call.name, tool_call_id=call_id)
        return replace(self, messages=[*self.messages, answer, output])

    def stream(self) -> AsyncGenerator[Any, None] | Generator[Any, None, None]:
        """Send the request; yield the one result, or the chunks.

        Yields nothing if the model's rate limiter would have to wait.
        """
        return self._send_async() if self.method.is_async else self._send_blocking()

    async def _send_async(self) -> AsyncGenerator[Any, None]:
        limiter = self.model.rate_limiter
        if limiter is not None and not await limiter.aacquire(blocking=False):
            return
        if self.method.is_streamed:
            chunks = agenerate_within(self._turn_context, self.send(list(self.messages), **self.options))
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
        else:
            with self._turn_context():
                result = await self.send(list(self.messages), **self.options)
            yield result

    def _send_blocking(self) -> Generator[Any, None, None]:
        limiter = self.model.rate_limiter
        if limiter is not None and not limiter.acquire(blocking=False):
            return
        if self.method.is_streamed:
            yield from generate_within(self._turn_context, self.send(list(self.messages), **self.options))
        else:
            with self._turn_context():
                result = self.send(list(self.messages), **self.options)
            yield result

    @contextmanager
    def _turn_context(self) -> Iterator[None]:
        # Requests sent ahead run outside the graph's own context, which would tell their run.
        with inside_turn_of(self.model._agentrt_state), within_scope(self.scope):
            yield
