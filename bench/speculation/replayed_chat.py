"""A recorded main model: its own answers, after the time that it took for each. Stands for a remote one."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from agentrt.concurrency.clock import monotonic
from agentrt.errors import NotRecordedError

from .awaited_chat import AwaitedChat


class Recording(AsyncCallbackHandler):
    """Callback that records a model's answers, and the seconds of each, by history."""

    def __init__(self) -> None:
        """Create an empty recording."""
        self._answers: dict[str, tuple[AIMessage, float]] = {}
        self._begun: dict[Any, tuple[str, float]] = {}

    async def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], *, run_id: Any, **kwargs: Any
    ) -> None:
        """Note a request and its time."""
        self._begun[run_id] = _key(messages[0]), monotonic()

    async def on_llm_end(self, response: LLMResult, *, run_id: Any, **kwargs: Any) -> None:
        """Keep the answer to a request."""
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
