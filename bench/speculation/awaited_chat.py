"""A chat model whose answers a coroutine function gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class AwaitedChat(BaseChatModel):
    """Chat model that answers a history with what ``reply`` returns for it; asynchronous only."""

    reply: Callable[[list[BaseMessage]], Awaitable[AIMessage]]

    @property
    def _llm_type(self) -> str:
        return "awaited"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model bound to the names of the tools."""
        return self.bind(tools=[each.name for each in tools])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model is asynchronous")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=await self.reply(messages))])
