"""ChatAgentRT on the real runtime with the real nano model, on every path."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agentrt import Priority, ToolCall, priority, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.errors import ConfigurationError, InvalidRequestError, ModelNotFoundError, PromptTooLongError
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.testing import ScriptedSpeculator
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.real_model

SYSTEM = SystemMessage("You are a helpful assistant.")
QUESTION = HumanMessage("What is the weather in Oslo?")


@pytest.fixture(scope="module")
def runtime() -> Iterator[LocalRuntime]:
    exact = RuntimeConfig(
        memory_bytes=32 * 2**20, inference_precision="f32", kv_cache_precision="f32", threads=1
    )
    with LocalRuntime.open("nano", exact) as opened:
        yield opened


@pytest.fixture
def chat(runtime: LocalRuntime) -> ChatAgentRT:
    return ChatAgentRT(runtime=runtime, max_tokens=48)


@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f'{{"city": "{city}", "temperature": 12, "sky": "light rain"}}'


def collect(chunks: list[Any]) -> AIMessageChunk:
    merged = chunks[0]
    for chunk in chunks[1:]:
        merged = merged + chunk
    assert isinstance(merged, AIMessageChunk)
    return merged


def without_ids(message: AIMessage) -> tuple[Any, ...]:
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    # What was in memory from the time before is not the path's doing.
    usage = {key: value for key, value in (message.usage_metadata or {}).items() if "details" not in key}
    return message.content, calls, usage, message.response_metadata["finish_reason"]


@pytest.mark.parametrize("tools", [[], [get_weather]])
def test_all_four_paths_say_the_same(chat: ChatAgentRT, tools: list[Any]) -> None:
    model: Any = chat.bind_tools(tools) if tools else chat
    messages = [SYSTEM, QUESTION]

    async def both() -> list[AIMessage]:
        streamed = [chunk async for chunk in model.astream(messages)]
        return [await model.ainvoke(messages), collect(streamed)]

    answers = [model.invoke(messages), collect(list(model.stream(messages))), *asyncio.run(both())]
    assert [without_ids(answer) for answer in answers] == [without_ids(answers[0])] * 4
    usage = answers[0].usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0
    timing = answers[0].response_metadata["timing"]
    assert 0 <= timing["queued_s"] <= timing["time_to_first_token_s"] <= timing["total_s"]


def test_a_tool_call_comes_whole_with_its_id(chat: ChatAgentRT) -> None:
    model = chat.bind_tools([get_weather])
    chunks = [chunk for chunk in model.stream([SYSTEM, QUESTION]) if chunk.tool_call_chunks]
    merged = collect(chunks)
    assert len(chunks) == len(merged.tool_calls)
    assert merged.tool_calls, "the nano model should call its weather tool"
    assert merged.tool_calls[0]["id"]
    assert merged.tool_calls[0]["name"] == "get_weather"
    assert merged.invalid_tool_calls == []


def test_the_result_of_a_tool_goes_back_to_the_model(chat: ChatAgentRT) -> None:
    messages = create_agent(chat, [get_weather], system_prompt=SYSTEM.text).invoke({"messages": [QUESTION]})[
        "messages"
    ]
    assert [type(message) for message in messages] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert "12" in messages[-1].text


def test_options_reach_the_runtime(chat: ChatAgentRT) -> None:
    long = chat.invoke([SYSTEM, HumanMessage("Hello!")])
    short = chat.bind(max_tokens=2).invoke([SYSTEM, HumanMessage("Hello!")])
    assert short.response_metadata["finish_reason"] == "length"
    assert short.usage_metadata["output_tokens"] == 2
    stopped = chat.invoke([SYSTEM, HumanMessage("Hello!")], stop=[long.text[3:5]])
    assert stopped.text == long.text[:3]
    sampled = [
        chat.model_copy(update={"temperature": 1.5, "seed": 7}).invoke([QUESTION]).text for _ in range(2)
    ]
    assert sampled[0] == sampled[1]


def test_the_priority_in_force_goes_along(chat: ChatAgentRT, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    engine = chat.runtime._engine
    submit = engine.submit

    def note(request: Any, **options: Any) -> Any:
        asked.append(request.priority)
        return submit(request, **options)

    monkeypatch.setattr(engine, "submit", note)
    with priority(Priority.PROACTIVE):
        create_agent(chat, []).invoke({"messages": [QUESTION]})
        asyncio.run(create_agent(chat, []).ainvoke({"messages": [QUESTION]}))
        chat.model_copy(update={"priority": Priority.REACTIVE}).invoke([QUESTION])
    assert asked == [Priority.PROACTIVE, Priority.PROACTIVE, Priority.REACTIVE]


@pytest.mark.parametrize("how", ["cancel the task", "leave the stream", "leave the sync stream"])
def test_leaving_ends_the_generation_in_the_engine(
    chat: ChatAgentRT, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = chat.model_copy(update={"max_tokens": None}).bind(logit_bias={2: -100.0})  # no end token
    engine = chat.runtime._engine
    before = engine.statistics().cancelled
    chat.invoke([QUESTION])  # its end comes behind whatever was left to do for earlier answers
    free = chat.runtime.statistics().free_blocks  # one of them may wait for its tool, with its blocks

    async def cancel() -> None:
        submitted, submit = asyncio.Event(), engine.submit

        def note(*args: Any, **named: Any) -> Any:
            submitted.set()
            return submit(*args, **named)

        monkeypatch.setattr(engine, "submit", note)
        task = asyncio.create_task(endless.ainvoke([QUESTION]))
        await submitted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def leave() -> None:
        chunks = endless.astream([QUESTION])
        await anext(chunks)
        await chunks.aclose()

    if how == "leave the sync stream":
        chunks = endless.stream([QUESTION])
        next(chunks)
        chunks.close()
    else:
        asyncio.run(cancel() if how == "cancel the task" else leave())
    chat.invoke([QUESTION])  # its end comes behind that of the cancelled one
    statistics = chat.runtime.statistics()
    assert statistics.engine.cancelled == before + 1
    assert statistics.free_blocks >= free


@pytest.mark.parametrize(
    ("choice", "calls"),
    [
        ("any", True),
        (True, True),
        ("required", True),
        ("get_weather", True),
        ({"type": "function", "function": {"name": "get_weather"}}, True),
        ("none", False),
        ("auto", False),
        (None, False),
    ],
)
def test_tool_choice(chat: ChatAgentRT, choice: Any, calls: bool) -> None:
    answer = chat.bind_tools([get_weather], tool_choice=choice).invoke("Hello!")
    assert bool(answer.tool_calls) is calls


def test_wrong_use_raises(chat: ChatAgentRT, runtime: LocalRuntime) -> None:
    with pytest.raises(InvalidRequestError, match="no tool is called 'other'"):
        chat.bind_tools([get_weather], tool_choice="other").invoke([QUESTION])
    with pytest.raises(ConfigurationError, match="only one of the two"):
        ChatAgentRT(runtime=runtime, model="other")
    with pytest.raises(ModelNotFoundError):
        ChatAgentRT(model="no-such-model")
    with pytest.raises(ConfigurationError, match="temprature"):
        ChatAgentRT(runtime=runtime, temprature=1.0)
    with pytest.raises(PromptTooLongError):
        chat.invoke("word " * 100_000)
    with pytest.raises(InvalidRequestError, match=r"foo.*no such option.*temperature"):
        chat.invoke("hi", foo=1)
    with pytest.raises(InvalidRequestError, match="empty"):
        chat.invoke("")


def test_a_model_opened_by_name_is_shared_by_its_copies() -> None:
    chat = ChatAgentRT(model="nano")
    assert chat.model_copy().runtime is chat.runtime
    assert chat.profile is not None
    assert chat.profile["max_input_tokens"] == chat.runtime.context_length
    assert chat.profile["tool_calling"] is True
    chat.runtime.close()


def test_speculation_beside_the_local_model(chat: ChatAgentRT) -> None:
    started = threading.Event()

    @speculable
    @tool
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        started.set()
        return f'{{"city": "{city}", "temperature": 12, "sky": "light rain"}}'

    plain = create_agent(chat, [get_weather], system_prompt=SYSTEM.text).invoke({"messages": [QUESTION]})
    (asked,) = plain["messages"][1].tool_calls
    started.clear()

    class Waiting(ChatAgentRT):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            result = super()._generate(*args, **kwargs)
            assert started.wait(PATIENCE_S)  # the tool starts although the model has not answered yet
            return result

    model = speculate(
        Waiting(runtime=chat.runtime), ScriptedSpeculator([ToolCall(asked["name"], asked["args"])])
    )
    assert isinstance(model, ChatAgentRT)
    fast = create_agent(model, [get_weather], system_prompt=SYSTEM.text).invoke({"messages": [QUESTION]})
    assert [m.text for m in fast["messages"]] == [m.text for m in plain["messages"]]
    assert report_of(model).total.claims == 1


def test_the_thread_of_a_graph_is_a_session(runtime: LocalRuntime) -> None:
    chat = ChatAgentRT(runtime=runtime, max_tokens=4, app="graphs")
    agent = create_agent(chat, [], checkpointer=InMemorySaver())
    begin: Any = {"messages": [QUESTION]}
    service = runtime.bind("graphs")
    sessions = lambda: sorted(str(context.session) for context in service.contexts())  # noqa: E731

    def thread(name: str) -> Any:
        return {"configurable": {"thread_id": name}}

    chat.invoke([QUESTION])
    assert sessions() == []
    agent.invoke(begin, thread("one"))
    agent.invoke(begin, thread("one"))
    list(agent.stream(begin, thread("two"), stream_mode="messages"))
    asyncio.run(agent.ainvoke(begin, thread("three")))
    assert sessions() == ["one", "three", "two"]
    chat.bind(session="mine").invoke([QUESTION])
    assert "mine" in sessions()
    for context in service.contexts():
        service.delete(context)


@pytest.mark.parametrize(
    "thread", [7, uuid.UUID(int=7), "", "x" * 257, "a\nb"], ids=["int", "UUID", "empty", "long", "lines"]
)
def test_a_thread_that_cannot_name_a_session_is_refused(runtime: LocalRuntime, thread: Any) -> None:
    chat = ChatAgentRT(runtime=runtime, max_tokens=4, app="graphs")
    begin: Any = {"messages": [QUESTION]}
    config: Any = {"configurable": {"thread_id": thread}}
    agent = create_agent(chat, [], checkpointer=InMemorySaver())
    ways: list[Callable[[], Any]] = [
        lambda: agent.invoke(begin, config),
        lambda: list(agent.stream(begin, config, stream_mode="messages")),
        lambda: asyncio.run(agent.ainvoke(begin, config)),
    ]
    for way in ways:
        with pytest.raises(InvalidRequestError, match=r"str\(thread_id\)") as caught:
            way()
        assert caught.value.field == "thread_id"
    assert runtime.bind("graphs").contexts() == []
    for session in (None, "mine"):  # the way out that the message names
        graph = StateGraph(MessagesState)
        bound = chat.bind(session=session)
        graph.add_node("model", lambda state, bound=bound: {"messages": [bound.invoke(state["messages"])]})
        graph.add_edge(START, "model")
        graph.compile().invoke(begin, config)
    (context,) = runtime.bind("graphs").contexts()
    assert context.session == "mine"
    runtime.bind("graphs").delete(context)
