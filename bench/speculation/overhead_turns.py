"""Turns whose overhead is measured: an agent on each path, plain and with speculation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from agentrt.calls import ToolCall
from agentrt.drafts import DraftRequest
from agentrt.reports.events import CallClaimed, PredictorSkipped, SpeculationEvent
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession

MODEL_S = 0.008  # long enough for the draft to come and its tool to run
TOOL_S = 0.006
HISTORY = 20  # messages that each request brings along
_WAIT_S = 0.001
_MOST_WAITS = 1000
_ARGUMENTS = {"q": "a"}
Turn = Callable[[], Awaitable[None]]


class Outcomes:
    """Observer that counts the claimed calls of one side, and the turns whose predictor was not run."""

    def __init__(self) -> None:
        """Create an observer that has seen nothing."""
        self.claimed = 0
        self.skipped = 0

    def on_event(self, event: SpeculationEvent) -> None:
        """Count the event."""
        self.claimed += isinstance(event, CallClaimed)
        self.skipped += isinstance(event, PredictorSkipped)


class FixedDraft:
    """Predictor that drafts the same call in every turn: the model's, or one that it never makes."""

    def __init__(self, *, right: bool) -> None:
        """``right`` says which."""
        self.name = "always right" if right else "always wrong"
        self.right = right

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield the draft."""
        yield ToolCall("find", _ARGUMENTS if self.right else {"q": "b"})


class Find:
    """A tool, and how many of its runs have ended."""

    def __init__(self) -> None:
        """Create a tool that has not run."""
        self.ended = 0

        async def find(q: str) -> str:
            """Find something."""
            await asyncio.sleep(TOOL_S)
            self.ended += 1
            return q

        self.run = find


async def _generate(speculated: Find | None) -> None:
    """Take the model's time, and wait until the tool that is run speculatively meanwhile has ended.

    On an idle machine it ended before; on a busy one its claim must not be a matter of luck. The wait ends
    after ``_MOST_WAITS`` rounds of the event loop, so that a turn without a speculation shows as unclaimed.
    """
    ended = speculated.ended if speculated is not None else 0
    await asyncio.sleep(MODEL_S)
    if speculated is not None:
        for _ in range(_MOST_WAITS):
            if speculated.ended > ended:
                return
            await asyncio.sleep(_WAIT_S)


class _Chat(BaseChatModel):
    """Chat model that calls ``find`` after a short wait, each time with a new id."""

    speculated: Any = None
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "short"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model bound to the names of the tools."""
        return self.bind(tools=[each.name for each in tools])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model is asynchronous")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await _generate(self.speculated)
        self.asked += 1
        call = {
            "name": "find",
            "args": dict(_ARGUMENTS),
            "id": f"call_{id(self)}_{self.asked}",
            "type": "tool_call",
        }
        message = AIMessage(content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def speculative_langchain_turn(predictor: FixedDraft, outcomes: Outcomes) -> Turn:
    """Return a turn of a LangChain model and tool with this predictor."""
    from agentrt.adapters.langchain import speculate

    find = Find()
    chat = _Chat(speculated=find if predictor.right else None)
    model = speculate(chat, predictor, observers=[outcomes])
    return _langchain_turn(model, speculable(max_concurrency=64)(tool(find.run)))


def plain_langchain_turn() -> Turn:
    """Return a turn of a LangChain model and tool."""
    return _langchain_turn(_Chat(), tool(Find().run))


def _langchain_turn(model: BaseChatModel, find: Any) -> Turn:
    history = [("user", "hi"), *[("assistant", "as I said"), ("user", "and then?")] * (HISTORY // 2)]
    bound = model.bind_tools([find])

    async def turn() -> None:
        answer: Any = await bound.ainvoke(history)
        await find.ainvoke({**answer.tool_calls[0], "type": "tool_call"})

    return turn


def plain_turn() -> Turn:
    """Return a turn of a model and a tool without a framework."""
    find = Find()

    async def turn() -> None:
        await _generate(None)
        await find.run("a")

    return turn


def session_turn(session: SpeculationSession, find: Find, *, right: bool) -> Turn:
    """Return a turn in a session on the tool ``find``; ``right`` says whether its drafts are."""
    history = [{"role": "user", "content": "and then?"}] * HISTORY
    made = 0

    async def turn() -> None:
        nonlocal made
        made += 1
        with session.turn(history, []) as turn:
            await _generate(find if right else None)
            call = ToolCall("find", _ARGUMENTS, f"call_{made}")
            turn.bind([call])
        await session.acall(call)

    return turn
