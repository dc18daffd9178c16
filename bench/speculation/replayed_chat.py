"""A chat model whose answers a coroutine function gives, such as a recorded main model: its own answers,
after the time that it took for each. Stands for a remote one."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult

from agentrt.concurrency.clock import monotonic
from agentrt.errors import NotRecordedError


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


class Recording(AsyncCallbackHandler):
    """Callback that records a model's answers, and the seconds of each, by history."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[AIMessage, float]] = {}
        self._begun: dict[Any, tuple[str, float]] = {}

    async def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], *, run_id: Any, **kwargs: Any
    ) -> None:
        self._begun[run_id] = _key(messages[0]), monotonic()

    async def on_llm_end(self, response: LLMResult, *, run_id: Any, **kwargs: Any) -> None:
        key, began = self._begun.pop(run_id)
        generation = response.generations[0][0]
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            self._answers[key] = generation.message, monotonic() - began

    def replay(self) -> AwaitedChat:
        """Return a chat model that waits as long as the recorded one took, and answers what it answered."""
        return AwaitedChat(reply=self.reply)

    async def reply(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the answer to a history, after the time that it took.

        Raises:
            NotRecordedError: the model was not asked this.
        """
        try:
            answer, seconds = self._answers[_key(messages)]
        except KeyError:
            raise NotRecordedError(
                "the recorded model was not asked this. Record it on the same requests and tools."
            ) from None
        await asyncio.sleep(seconds)
        calls = [{**call, "id": f"call_{uuid.uuid4().hex}"} for call in answer.tool_calls]
        return AIMessage(answer.content, tool_calls=calls, usage_metadata=answer.usage_metadata)


def _key(messages: Sequence[BaseMessage]) -> str:
    """Return a history without ids."""
    return json.dumps(
        [
            (each.type, each.text, [(call["name"], call["args"]) for call in getattr(each, "tool_calls", ())])
            for each in messages
        ],
        sort_keys=True,
    )
