"""The model requests of a session, as turn-ahead sends them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from ..argument_checks import check_field
from ..calls import ToolCall, parse_arguments
from ..drafts import DraftRequest, Speculator
from ..errors import InvalidRequestError
from ..lookahead.model_request import request_key
from ..toolcache import result_text

Message: TypeAlias = Mapping[str, Any]
Model: TypeAlias = Callable[[Sequence[Message], Sequence[Message]], Awaitable[Message]]


@dataclass(frozen=True)
class SessionRequest:
    """One request to an async function; a :class:`agentrt.lookahead.model_request.ModelRequest`."""

    model: Model
    messages: Sequence[Message]
    tools: Sequence[Message]
    predictors: Sequence[Speculator]

    @cached_property
    def key(self) -> str:
        """The key of the messages and the tools."""
        return request_key(self.messages, self.tools)

    def request(self) -> DraftRequest:
        """Return the messages and the tools, unchanged."""
        return DraftRequest(self.messages, self.tools)

    def after(self, call: ToolCall, result: Any) -> SessionRequest | None:
        """Return the request with the call and its result appended, as text or else as JSON."""
        text = result_text(result)
        if text is None:
            return None
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        call_id = f"ahead_{len(self.messages)}"
        made = {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
        answer = {"role": "assistant", "content": None, "tool_calls": [made]}
        output = {"role": "tool", "tool_call_id": call_id, "content": text}
        return replace(self, messages=[*self.messages, answer, output])

    async def stream(self) -> AsyncGenerator[Message, None]:
        """Yield the answering message, whole."""
        yield await answer_of(self.model, self.messages, self.tools)


async def answer_of(model: Model, messages: Sequence[Message], tools: Sequence[Message]) -> Message:
    """Call ``model`` and return its answer.

    Raises:
        InvalidRequestError: ``model`` is no async function, or its answer no message.
    """
    wanted = "an async function of messages and tools"
    check_field("model", model, Callable, wanted)  # type: ignore[arg-type]
    pending = model(messages, tools)
    check_field("model", pending, Awaitable, f"{wanted}: this one did not return an awaitable")
    answer = await pending
    check_field("answer", answer, Mapping, "the model's message as a dict, such as message.model_dump()")
    return answer


def answered_ids(messages: Sequence[Message]) -> list[str]:
    """Return the ids of the calls with a result after the last answer, in the shape of chat completions."""
    ids = []
    for message in reversed(messages):
        if not isinstance(message, Mapping) or message.get("role") == "assistant":
            break
        if message.get("role") == "tool":
            ids.append(message.get("tool_call_id") or "")
    return ids


def calls_of(message: Message) -> list[ToolCall]:
    """Return the calls of an assistant's message, without those whose arguments are not JSON.

    Raises:
        InvalidRequestError: its ``tool_calls`` do not have the shape of chat completions.
    """
    calls = []
    try:
        for call in message.get("tool_calls") or ():
            name, text = call["function"]["name"], call["function"]["arguments"]
            with suppress(ValueError):
                calls.append(ToolCall(name, parse_arguments(text), call["id"]))
    except (KeyError, TypeError) as error:
        raise InvalidRequestError(
            "tool_calls",
            'these cannot be read. Give a list of {"id": ..., "type": "function", "function": {"name": ..., '
            '"arguments": ...}}, with the arguments as JSON text.',
        ) from error
    return calls
