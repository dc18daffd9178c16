"""A LangChain chat model as a predictor of tool calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from agentrt import DraftRequest, ToolCall
from agentrt.drafts import DraftCharge, estimated_tokens, merge, run_in_thread


class ChatModelSpeculator:
    """Lets a (smaller) chat model predict the main model's next call in one turn.

    Its requests have no callbacks, so that they appear neither in the user's stream nor in the user's traces
    and token counts. Each is charged when it is sent, with one input token for each four bytes of its
    messages and tools, and corrected by the usage in its answer.
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
        input_tokens = estimated_tokens(request)

        def charged(message: AIMessage, charge: DraftCharge) -> AIMessage:
            if (usage := message.usage_metadata) is not None:
                charge.correct(usage["input_tokens"], usage["output_tokens"])
            return message

        async def sample() -> AsyncIterator[AIMessage]:
            charge = DraftCharge(request)
            if not charge.send(input_tokens):
                return
            if self._use_async:
                yield charged(await model.ainvoke(self._messages, {"callbacks": []}), charge)
                return
            # In the thread, because a request that is cut off is answered and billed all the same.
            yield await run_in_thread(
                lambda: charged(model.invoke(self._messages, {"callbacks": []}), charge),
                name=f"agentrt draft {self.name}",
            )

        async with aclosing(merge([sample() for _ in range(request.samples)], errors_last=True)) as answers:
            async for _, message in answers:
                for call in tool_calls(message):
                    yield call


def tool_calls(message: BaseMessage) -> list[ToolCall]:
    """Return the well-formed tool calls of a model's answer."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [ToolCall(call["name"], call["args"], call["id"]) for call in calls]
