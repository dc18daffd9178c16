"""A predictor runs where it saves more than it costs: in a session, on LangChain and on the OpenAI client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import speculate as speculate_langchain
from agentrt.adapters.langchain.speculation import turns
from agentrt.adapters.openai import arun_tool
from agentrt.adapters.openai import speculate as speculate_openai
from agentrt.concurrency.hosts import RunningLoopHost
from agentrt.testing import free_prediction, run_in_virtual_time
from tests.adapters.openai.doubles import TOOLS, async_client, chat_completion


@dataclass
class Load:
    """A model that calls ``look`` in every turn, and its predictor. The times are virtual seconds."""

    tool_s: float
    generation_s: float
    slowdown_s: float = 0.0
    """By how much a running predictor slows the model."""
    turns: int = 0
    predicted: list[int] = field(default_factory=list)
    """The turns in which the predictor was run."""

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        self.predicted.append(self.turns)
        yield ToolCall("look", {"q": f"{self.turns}"})
        if self.slowdown_s:  # it slows the model only while it runs: here until the answer
            await asyncio.sleep(60)

    def look(self) -> Callable[[str], Coroutine[Any, Any, str]]:
        async def look(q: str) -> str:
            await asyncio.sleep(self.tool_s)
            return q

        return look

    async def answer(self) -> ToolCall:
        await asyncio.sleep(self.generation_s)
        if self.turns in self.predicted:
            await asyncio.sleep(self.slowdown_s)
        return ToolCall("look", {"q": f"{self.turns}"}, f"call_{self.turns}")

    def predicted_in(self, first: int, last: int) -> int:
        """Return in how many of the turns from ``first`` to ``last`` the predictor was run."""
        return sum(first <= turn <= last for turn in self.predicted)


Turn = Callable[[], Coroutine[Any, Any, None]]
Main = Callable[[Turn], Coroutine[Any, Any, None]]


async def in_session(load: Load, main: Main) -> None:
    look = speculable(load.look())
    async with SpeculationSession([look], [load]) as session:

        async def turn() -> None:
            load.turns += 1
            with session.turn([], []) as started:
                call = await load.answer()
                started.bind([call])
            assert await session.acall(call) == f"{load.turns}"

        await main(turn)


class Chat(BaseChatModel):
    load: Any

    @property
    def _llm_type(self) -> str:
        return "load"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[each.name for each in tools], **kwargs)

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        call = await self.load.answer()
        made = {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[made]))])


async def on_langchain(load: Load, main: Main) -> None:
    look = speculable(tool(description="Look something up.")(load.look()))
    model = speculate_langchain(Chat(load=load), load).bind_tools([look])

    async def turn() -> None:
        load.turns += 1
        message = await model.ainvoke("hi")
        assert (await look.ainvoke(message.tool_calls[0])).content == f"{load.turns}"

    await main(turn)


async def on_openai(load: Load, main: Main) -> None:
    look = speculable(load.look())

    async def answer(request: httpx.Request) -> httpx.Response:
        call = await load.answer()
        made = (call.name, json.dumps(dict(call.arguments)), str(call.id))
        return httpx.Response(200, json=chat_completion([made]))

    async with async_client(answer) as plain:
        client = speculate_openai(plain, load, tools=[look])

        async def turn() -> None:
            load.turns += 1
            messages: Any = [{"role": "user", "content": "hi"}]
            tools: Any = TOOLS
            answered = await client.chat.completions.create(model="m", messages=messages, tools=tools)
            calls: Any = answered.choices[0].message.tool_calls
            assert await arun_tool(client, calls[0]) == f"{load.turns}"

        await main(turn)


@pytest.fixture(params=[in_session, on_langchain, on_openai])
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Runs some turns of a load, and more of them after a change."""

    def run(load: Load, turns: int, change: Callable[[], None] = lambda: None, more: int = 0) -> None:
        async def main(turn: Turn) -> None:
            for _ in range(turns):
                await turn()
            change()
            for _ in range(more):
                await turn()

        run_in_virtual_time(lambda: request.param(load, main))

    return run


def test_instant_tools_are_predicted_rarely(run: Any) -> None:
    load = Load(tool_s=0.0, generation_s=2.0)
    run(load, 100)
    assert load.predicted[0] == 1
    assert len(load.predicted) <= 8  # the first turn, and after 1, 2, 4, … turns


def test_slow_tools_are_predicted_in_nearly_every_turn(run: Any) -> None:
    load = Load(tool_s=3.0, generation_s=2.0)
    run(load, 60)
    assert len(load.predicted) >= 55


def test_a_predictor_that_slows_a_fast_model_stops(run: Any) -> None:
    load = Load(tool_s=0.1, generation_s=0.1, slowdown_s=0.2)
    run(load, 60)
    assert load.predicted[0] == 1
    assert load.predicted_in(21, 60) <= 4


def test_a_tool_that_becomes_slow_is_predicted_again(run: Any) -> None:
    load = Load(tool_s=0.0, generation_s=2.0)
    run(load, 60, lambda: setattr(load, "tool_s", 3.0), 30)
    assert load.predicted_in(2, 60) <= 7
    assert load.predicted_in(63, 90) >= 25


def test_with_free_prediction_instant_tools_are_predicted_in_every_turn(run: Any) -> None:
    load = Load(tool_s=0.0, generation_s=2.0)
    with free_prediction():
        run(load, 20)
    assert len(load.predicted) == 20


def test_a_turn_without_a_predictor_starts_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(tool_s=0.0, generation_s=2.0)
    started: list[int] = []
    start = RunningLoopHost.start

    def noted(host: RunningLoopHost, main: Any) -> None:
        started.append(load.turns)
        start(host, main)

    monkeypatch.setattr(RunningLoopHost, "start", noted)
    run(load, 40)
    assert started == load.predicted
    assert len(started) < 10


def test_a_turn_without_a_predictor_looks_for_no_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(tool_s=0.0, generation_s=2.0)
    asked: list[int] = []
    find = turns.guards_in_graph

    def noted(*arguments: Any) -> Any:
        asked.append(load.turns)
        return find(*arguments)

    monkeypatch.setattr(turns, "guards_in_graph", noted)

    async def main(turn: Turn) -> None:
        for _ in range(40):
            await turn()

    run_in_virtual_time(lambda: on_langchain(load, main))
    assert asked == load.predicted
