"""A chat model limited to the pace of a larger one.

The demonstration model writes a call in some hundredths of a second, too fast to hide a tool behind. Models
that people work with take seconds. At their pace the small model shows what speculation does for them;
nothing else about it changes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field

from agentrt.adapters.langchain import ChatAgentRT

from ..gallery import TOKENS_PER_SECOND

CHARACTERS_PER_TOKEN = 3.5
"""Of a model with a vocabulary of usual size, in the calls and answers of the assistant: 3.54 in Qwen2.5's,
measured by hand on 2026-11-22 on six calls and seven answers. Such a model writes a call in as many tokens as
nano (18 on average), whose vocabulary of 2,048 has much of a call's markup, and an answer in half as many."""


class PacedChatAgentRT(ChatAgentRT):
    """The local runtime at ``tokens_per_second`` or less; async only, as the assistant is."""

    tokens_per_second: float = Field(gt=0)
    characters_per_token: float | None = Field(default=None, gt=0)
    """Count tokens as those of another vocabulary: this many characters of text or of a call's JSON each.
    None counts the model's own tokens."""

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        began = time.monotonic()
        result = await super()._agenerate(messages, *args, **kwargs)
        await self._wait_until(began, self._tokens([result.generations[0].message]))
        return result

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        began = time.monotonic()
        chunks = [chunk async for chunk in super()._astream(messages, *args, **kwargs)]
        tokens = self._tokens([chunk.message for chunk in chunks])
        for number, chunk in enumerate(chunks, 1):
            await self._wait_until(began, tokens * number / len(chunks))
            yield chunk

    async def _wait_until(self, began: float, tokens: float) -> None:
        """Wait until ``tokens`` tokens may have been written since ``began``."""
        await asyncio.sleep(max(0.0, began + tokens / self.tokens_per_second - time.monotonic()))

    def _tokens(self, messages: Sequence[BaseMessage]) -> float:
        """Return how many tokens the model has written in ``messages``, the parts of one answer."""
        written = [message for message in messages if isinstance(message, (AIMessage, AIMessageChunk))]
        if self.characters_per_token is not None:
            return sum(map(_characters, written)) / self.characters_per_token
        return sum(message.usage_metadata["output_tokens"] for message in written if message.usage_metadata)


def chat_model(name: str) -> ChatAgentRT:
    """Return the model ``name``, with nano held to the pace of a larger one."""
    if name == "nano":
        return PacedChatAgentRT(model=name, tokens_per_second=TOKENS_PER_SECOND)
    return ChatAgentRT(model=name)


def _characters(message: AIMessage | AIMessageChunk) -> int:
    calls = [{"name": call["name"], "arguments": call["args"]} for call in message.tool_calls]
    return len(message.text) + sum(len(json.dumps(call, ensure_ascii=False)) for call in calls)
