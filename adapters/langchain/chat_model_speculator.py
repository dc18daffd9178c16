"""A LangChain chat model as a predictor of tool calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from agentrt.calls import ToolCall
from agentrt.concurrency.streams import as_completed
from agentrt.concurrency.threads import run_in_thread
from agentrt.drafts import DraftRequest


class ChatModelSpeculator:
    """Asks a (smaller) chat model for the call the main model is about to make.

    It speculates for one turn. Its calls carry no callbacks, so that they appear neither in the user's
    stream nor among the user's traces and token counts.
    """

    def __init__(
        self, model: BaseChatModel, messages: Sequence[BaseMessage], tools: Sequence[Any], *, use_async: bool
    ) -> None:
        """``use_async`` says whether the turn runs on the caller's own loop, whose clients it may share."""
        self.name = type(model).__name__
        self._model = model
        self._messages = list(messages)
        self._tools = tools
        self._use_async = use_async

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of ``request.samples`` answers as they come; equal ones may repeat."""
        model = self._model.bind_tools(self._tools)

        async def sample() -> AIMessage:
            if self._use_async:
                return await model.ainvoke(self._messages, {"callbacks": []})
            return await run_in_thread(
                lambda: model.invoke(self._messages, {"callbacks": []}), name=f"agentrt draft {self.name}"
            )

        async for message in as_completed([sample] * request.samples):
            for call in tool_calls(message):
                yield call


def tool_calls(message: BaseMessage) -> list[ToolCall]:
    """Return the well-formed tool calls of a model's answer."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [ToolCall(call["name"], call["args"], call["id"]) for call in calls]
