"""A recorded main model: its own answers, after the time that it took for each. Stands for a remote one."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult

from agentrt.concurrency.clock import monotonic
from agentrt.errors import NotRecordedError


@dataclass(frozen=True, slots=True)
class _Answer:
    message: AIMessage
    seconds: float


class Recording(AsyncCallbackHandler):
    """Callback that records a model's answers, and the seconds of each, by history."""

    def __init__(self) -> None:
        """Create an empty recording."""
        self._answers: dict[str, _Answer] = {}
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
            self._answers[key] = _Answer(generation.message, monotonic() - began)

    def answer(self, messages: Sequence[BaseMessage]) -> _Answer:
        """Return the answer to a history.

        Raises:
            NotRecordedError: the model was not asked this.
        """
        try:
            return self._answers[_key(messages)]
        except KeyError:
            raise NotRecordedError(
                "the recorded model was not asked this. Record it on the same requests and tools."
            ) from None


class ReplayedChat(BaseChatModel):
    """Chat model that waits as long as the recorded one took, and answers what it answered."""

    recording: Any

    @property
    def _llm_type(self) -> str:
        return "replayed"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model bound to the names of the tools."""
        return self.bind(tools=[each.name for each in tools])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model is asynchronous")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        recorded = self.recording.answer(messages)
        await asyncio.sleep(recorded.seconds)
        calls = [{**call, "id": f"call_{uuid.uuid4().hex}"} for call in recorded.message.tool_calls]
        message = AIMessage(
            content=recorded.message.content,
            tool_calls=calls,
            usage_metadata=recorded.message.usage_metadata,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _key(messages: Sequence[BaseMessage]) -> str:
    """Return a history without ids."""
    return json.dumps(
        [
            (each.type, each.text, [(call["name"], call["args"]) for call in getattr(each, "tool_calls", ())])
            for each in messages
        ],
        sort_keys=True,
    )
