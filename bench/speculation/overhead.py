"""Overhead of speculation per turn: an agent whose model, predictor and tool take no time."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.tools.speculable import speculable

_HISTORY = 20  # messages that each request brings along
_WARM = 20
METHOD = (
    "Overhead: a LangChain turn whose model, predictor and tool take no time, speculative less the "
    "median plain one."
)


class _Instant(BaseChatModel):
    """Chat model that calls ``look`` at once, each time with a new id."""

    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model itself: its answers do not depend on tools."""
        return self.bind(tools=[each.name for each in tools])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model is asynchronous")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked += 1
        call = {"name": "look", "args": {"q": "a"}, "id": f"call_{self.asked}", "type": "tool_call"}
        message = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


class _FixedDraft:
    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        yield ToolCall("look", {"q": "a"})


@tool
async def _look(q: str) -> str:
    """Look something up."""
    return q


async def overhead_ms(turns: int) -> tuple[float, float]:
    """Return the extra milliseconds of a speculative turn: median and 99th percentile."""
    from agentrt.adapters.langchain import speculate

    look = _look.model_copy(update={"name": "look"})
    plain, fast = _Instant(), speculate(_Instant(), _FixedDraft())
    early = speculable(max_concurrency=64)(look)
    history: list[Any] = [
        ("user", "hi"),
        *[("assistant", "as I said"), ("user", "and then?")] * (_HISTORY // 2),
    ]
    sides = [(plain.bind_tools([look]), look), (fast.bind_tools([early]), early)]
    seconds: list[list[float]] = [[], []]
    for turn in range(_WARM + turns):
        for side, (model, each) in enumerate(sides):
            began = time.perf_counter()
            answer = await model.ainvoke(history)
            await each.ainvoke({**answer.tool_calls[0], "type": "tool_call"})
            if turn >= _WARM:
                seconds[side].append(time.perf_counter() - began)
    usual = statistics.median(seconds[0])
    more = sorted(1000 * (each - usual) for each in seconds[1])
    return statistics.median(more), more[int(0.99 * len(more))]
