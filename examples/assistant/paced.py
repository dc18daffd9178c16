"""A chat model limited to the pace of a larger one.

The demonstration model writes a call in some hundredths of a second, too fast to hide a tool behind. Models
that people work with take seconds. At their pace the small model shows what speculation does for them;
nothing else about it changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field

from agentrt.adapters.langchain import ChatAgentRT


class PacedChatAgentRT(ChatAgentRT):
    """The local runtime at ``tokens_per_second`` or less; async only, as the assistant is."""

    tokens_per_second: float = Field(gt=0)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        began = time.monotonic()
        result = await super()._agenerate(messages, *args, **kwargs)
        await self._wait_until(began, _tokens([result.generations[0].message]))
        return result

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        began = time.monotonic()
        chunks = [chunk async for chunk in super()._astream(messages, *args, **kwargs)]
        tokens = _tokens([chunk.message for chunk in chunks])
        for number, chunk in enumerate(chunks, 1):
            await self._wait_until(began, tokens * number / len(chunks))
            yield chunk

    async def _wait_until(self, began: float, tokens: float) -> None:
        """Wait until ``tokens`` tokens may have been written since ``began``."""
        await asyncio.sleep(max(0.0, began + tokens / self.tokens_per_second - time.monotonic()))


def _tokens(messages: list[BaseMessage]) -> int:
    return sum(
        message.usage_metadata["output_tokens"]
        for message in messages
        if isinstance(message, (AIMessage, AIMessageChunk)) and message.usage_metadata
    )
