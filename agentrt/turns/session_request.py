"""The model requests of a session, as turn-ahead sends them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from ..calls import ToolCall, parse_arguments
from ..drafts import DraftRequest, Speculator
from ..lookahead.request_key import request_key
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
    samples: int

    @cached_property
    def key(self) -> str:
        """The key of the messages and the tools."""
        return request_key(self.messages, self.tools)

    def request(self) -> DraftRequest:
        """Return the messages and the tools, unchanged."""
        return DraftRequest(self.messages, self.tools, self.samples)

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
        yield await self.model(self.messages, self.tools)


def calls_of(message: Message) -> list[ToolCall]:
    """Return the calls of an assistant's message, without those whose arguments are not JSON."""
    calls = []
    for call in message.get("tool_calls") or ():
        try:
            arguments = parse_arguments(call["function"]["arguments"])
        except ValueError:
            continue
        calls.append(ToolCall(call["function"]["name"], arguments, call["id"]))
    return calls
