"""A LangChain chat model as a predictor of tool calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from agentrt.calls import ToolCall
from agentrt.concurrency.merge import merge
from agentrt.concurrency.threads import run_in_thread
from agentrt.drafts import DraftRequest


class ChatModelSpeculator:
    """Lets a (smaller) chat model predict the main model's next call in one turn.

    Its requests have no callbacks, so that they appear neither in the user's stream nor in the user's traces
    and token counts.
    """

    def __init__(
        self, model: BaseChatModel, messages: Sequence[BaseMessage], tools: Sequence[Any], *, use_async: bool
    ) -> None:
        """``use_async`` says that the turn runs on the caller's event loop, to which async clients belong."""
        self.name = type(model).__name__
        self._model = model
        self._messages = list(messages)
        self._tools = tools
        self._use_async = use_async

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the calls of ``request.samples`` answers as they come; equal ones may repeat."""
        model = self._model.bind_tools(self._tools)

        async def sample() -> AsyncIterator[AIMessage]:
            if self._use_async:
                yield await model.ainvoke(self._messages, {"callbacks": []})
                return
            yield await run_in_thread(
                lambda: model.invoke(self._messages, {"callbacks": []}), name=f"agentrt draft {self.name}"
            )

        async with aclosing(merge([sample() for _ in range(request.samples)], errors_last=True)) as answers:
            async for _, message in answers:
                for call in tool_calls(message):
                    yield call


def tool_calls(message: BaseMessage) -> list[ToolCall]:
    """Return the well-formed tool calls of a model's answer."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [ToolCall(call["name"], call["args"], call["id"]) for call in calls]
