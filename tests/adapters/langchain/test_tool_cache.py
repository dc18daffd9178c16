"""Early results inside the model's own answer: an agent on ChatAgentRT with its tool cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from agentrt import Priority, ToolCall, priority, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.adapters.langchain.chat_model.answers import is_call_answered
from agentrt.adapters.langchain.chat_model.runtime_answers import RuntimeAnswers
from agentrt.adapters.langchain.messages import openai_messages
from agentrt.runtime import LocalRuntime
from agentrt.runtime.toolcache.outputs import ToolOutputs
from agentrt.testing import ScriptedSpeculator
from tests.adapters.doubles import AskedAgain
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")

QUESTION = HumanMessage("What is the weather in Oslo?")
OSLO = ToolCall("get_weather", {"city": "Oslo"})
RESULT = '{"city": "Oslo", "temperature": 12, "sky": "light rain"}'


@pytest.fixture
def runs() -> list[str]:
    return []


@pytest.fixture
def weather(runs: list[str]) -> BaseTool:
    @speculable
    @tool
    async def get_weather(city: str) -> str:
        """Current weather in a city."""
        runs.append(city)
        return RESULT.replace("Oslo", city)

    assert isinstance(get_weather, BaseTool)
    return get_weather


@pytest.fixture
def asked_again(monkeypatch: pytest.MonkeyPatch) -> AskedAgain:
    """A predictor of one call, for whose second turn answers wait behind the result of that call."""
    predictor = AskedAgain([OSLO])
    events = RuntimeAnswers._events

    async def waiting(self: RuntimeAnswers, *given: Any) -> AsyncGenerator[Any, None]:
        answered = False
        async with aclosing(events(self, *given)) as answer:
            async for event in answer:
                if answered and not is_call_answered(event):  # the next turn has begun
                    assert await asyncio.to_thread(predictor.again.wait, PATIENCE_S)
                answered = is_call_answered(event)
                yield event

    monkeypatch.setattr(RuntimeAnswers, "_events", waiting)
    return predictor


def model(
    exact_runtime: LocalRuntime, *turns: list[ToolCall], tool_cache: bool = True, predictor: Any = None
) -> tuple[Any, Any]:
    predictor = predictor or ScriptedSpeculator(*turns)
    chat = ChatAgentRT(runtime=exact_runtime, max_tokens=80, tool_cache=tool_cache)
    return speculate(chat, predictor), predictor


async def whole(chat: Any, messages: Any) -> AIMessage:
    answer = await chat.ainvoke(messages)
    assert isinstance(answer, AIMessage)
    return answer


async def streamed(chat: Any, messages: Any) -> AIMessage:
    total: Any = None
    async for chunk in chat.astream(messages):
        total = chunk if total is None else total + chunk
    return total  # type: ignore[no-any-return]


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.usefixtures("in_time")
def test_a_call_whose_result_is_there_is_answered_in_the_answer(
    exact_runtime: LocalRuntime,
    weather: BaseTool,
    runs: list[str],
    asked_again: AskedAgain,
    ask: Callable[..., Any],
) -> None:
    chat, predictor = model(exact_runtime, predictor=asked_again)
    message = asyncio.run(ask(chat.bind_tools([weather]), [QUESTION]))
    assert message.tool_calls == []
    call, result, text = message.content
    assert [block["type"] for block in message.content] == ["server_tool_call", "server_tool_result", "text"]
    assert text["text"] == message.text
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    assert (result["tool_call_id"], result["output"]) == (call["id"], RESULT)
    assert "12" in message.text
    assert message.response_metadata["finish_reason"] == "stop"
    assert runs == ["Oslo"]
    report = report_of(chat)
    assert (report.total.claims, report.total.misses) == (1, 0)
    # The predictors were asked for what comes next, on a history with the result.
    assert len(predictor.requests) == 2
    assert [part["role"] for part in predictor.requests[1].messages] == ["user", "assistant", "tool"]
    assert predictor.requests[1].messages[-1]["content"] == RESULT


def whole_blocking(chat: Any, messages: Any) -> AIMessage:
    answer = chat.invoke(messages)
    assert isinstance(answer, AIMessage)
    return answer


def streamed_blocking(chat: Any, messages: Any) -> AIMessage:
    total: Any = None
    for chunk in chat.stream(messages):
        total = chunk if total is None else total + chunk
    return total  # type: ignore[no-any-return]


async def whole_on_a_loop(chat: Any, messages: Any) -> AIMessage:
    return whole_blocking(chat, messages)


@pytest.mark.parametrize(
    "ask",
    [whole_blocking, streamed_blocking, lambda *asked: asyncio.run(whole_on_a_loop(*asked))],
    ids=["whole", "streamed", "whole on a running loop"],
)
@pytest.mark.usefixtures("in_time")
def test_a_caller_that_waits_gets_the_same(
    exact_runtime: LocalRuntime, asked_again: AskedAgain, ask: Callable[..., Any]
) -> None:
    @speculable
    @tool
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        return RESULT

    chat, predictor = model(exact_runtime, predictor=asked_again)
    message = ask(chat.bind_tools([get_weather]), [QUESTION])
    assert message.tool_calls == []
    blocks = [block["type"] for block in message.content]
    assert blocks == ["server_tool_call", "server_tool_result", "text"]
    assert "12" in message.text
    assert (report_of(chat).total.claims, report_of(chat).total.misses) == (1, 0)
    assert [part["role"] for part in predictor.requests[1].messages] == ["user", "assistant", "tool"]


@pytest.mark.usefixtures("in_time")
def test_an_unchanged_agent_says_what_it_would_have_said(
    exact_runtime: LocalRuntime, weather: BaseTool, runs: list[str]
) -> None:
    chat, _ = model(exact_runtime, [OSLO])
    agent = create_agent(chat, [weather])
    answered = asyncio.run(agent.ainvoke({"messages": [QUESTION]}))["messages"]
    plain = create_agent(ChatAgentRT(runtime=exact_runtime, max_tokens=80), [weather])
    usual = asyncio.run(plain.ainvoke({"messages": [QUESTION]}))["messages"]
    assert [type(message) for message in answered] == [HumanMessage, AIMessage]
    assert [type(message) for message in usual] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert answered[-1].text == usual[-1].text
    # To the model both histories are the same, so the conversation goes on alike.
    told, expected = openai_messages(answered), openai_messages(usual)
    assert [part["role"] for part in told] == [part["role"] for part in expected]
    assert [part.get("content") for part in told] == [part.get("content") for part in expected]


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize("drafts", [[], [ToolCall("get_weather", {"city": "Rome"})]])
def test_other_calls_are_the_agents(
    exact_runtime: LocalRuntime, weather: BaseTool, ask: Callable[..., Any], drafts: list[ToolCall]
) -> None:
    chat, _ = model(exact_runtime, drafts)
    message = asyncio.run(ask(chat.bind_tools([weather]), [QUESTION]))
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("get_weather", {"city": "Oslo"})
    ]
    assert message.content == []


@pytest.mark.parametrize("ask", [whole, streamed])
def test_without_the_tool_cache_nothing_is_submitted(
    exact_runtime: LocalRuntime, weather: BaseTool, monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Any]
) -> None:
    monkeypatch.setattr(ToolOutputs, "put", None)
    chat, _ = model(exact_runtime, [OSLO], tool_cache=False)
    message = asyncio.run(ask(chat.bind_tools([weather]), [QUESTION]))
    assert len(message.tool_calls) == 1


def test_results_that_must_pass_through_the_graph_are_not_submitted(
    exact_runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToolOutputs, "put", None)

    @speculable
    @tool(return_direct=True)
    async def get_weather(city: str) -> str:
        """Current weather in a city."""
        return RESULT

    chat, _ = model(exact_runtime, [OSLO])
    message = asyncio.run(whole(chat.bind_tools([get_weather]), [QUESTION]))
    assert len(message.tool_calls) == 1


@pytest.mark.parametrize("ask", [whole_blocking, streamed_blocking, whole, streamed])
@pytest.mark.parametrize("tool_cache", [False, True])
def test_a_priority_reaches_the_runtime(
    exact_runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Any], tool_cache: bool
) -> None:
    served: list[Priority] = []
    process = exact_runtime._input_processor.process

    def spy(*args: Any, **options: Any) -> Any:
        request = process(*args, **options)
        served.append(request.priority)
        return request

    monkeypatch.setattr(exact_runtime._input_processor, "process", spy)
    chat = ChatAgentRT(runtime=exact_runtime, max_tokens=2, tool_cache=tool_cache)
    for value in Priority:
        with priority(value):
            answer = ask(chat, [QUESTION])
            if asyncio.iscoroutine(answer):
                asyncio.run(answer)
    assert served == list(Priority)
