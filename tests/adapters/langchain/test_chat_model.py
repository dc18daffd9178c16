"""ChatAgentRT on the real runtime with the real nano model: answers, tokens, sessions."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agentrt import Priority, ToolCall, priority, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.adapters.langchain.messages import openai_messages
from agentrt.errors import ConfigurationError, InvalidRequestError, ModelNotFoundError, PromptTooLongError
from agentrt.runtime import LocalRuntime
from agentrt.testing import ScriptedSpeculator
from tests.adapters.langchain.chats import HELLO, QUESTION, RESULT, SYSTEM, WAYS, get_weather, whole
from tests.adapters.langchain.graphs import in_line
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.real_model

ASKED: Any = {"messages": [QUESTION]}


def without_ids(message: AIMessage) -> tuple[Any, ...]:
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    # What was in memory from the time before is not the path's doing.
    usage = {key: value for key, value in (message.usage_metadata or {}).items() if "details" not in key}
    return message.content, calls, usage, message.response_metadata["finish_reason"]


@pytest.mark.parametrize("tools", [[], [get_weather]])
def test_all_four_paths_say_the_same(chat: ChatAgentRT, tools: list[Any]) -> None:
    model: Any = chat.bind_tools(tools) if tools else chat
    messages = [SYSTEM, QUESTION]

    answers = [ask(model, messages) for ask in WAYS.values()]
    assert [without_ids(answer) for answer in answers] == [without_ids(answers[0])] * 4
    usage = answers[0].usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0
    timing = answers[0].response_metadata["timing"]
    assert 0 <= timing["queued_s"] <= timing["time_to_first_token_s"] <= timing["total_s"]


def test_a_tool_call_comes_whole_with_its_id(chat: ChatAgentRT) -> None:
    model = chat.bind_tools([get_weather])
    chunks = [chunk for chunk in model.stream([SYSTEM, QUESTION]) if chunk.tool_call_chunks]
    merged = whole(chunks)
    assert len(chunks) == len(merged.tool_calls)
    assert merged.tool_calls, "the nano model should call its weather tool"
    assert merged.tool_calls[0]["id"]
    assert merged.tool_calls[0]["name"] == "get_weather"
    assert merged.invalid_tool_calls == []


def test_options_reach_the_runtime(chat: ChatAgentRT) -> None:
    short = chat.bind(max_tokens=2).invoke(HELLO)
    assert short.response_metadata["finish_reason"] == "length"
    assert short.usage_metadata["output_tokens"] == 2
    sampling = chat.model_copy(update={"temperature": 1.5, "seed": 7})
    assert sampling.invoke(HELLO).text == sampling.invoke(HELLO).text


def test_the_priority_in_force_goes_along(chat: ChatAgentRT, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    engine = chat.runtime._engine
    submit = engine.submit

    def note(request: Any, **options: Any) -> Any:
        asked.append(request.priority)
        return submit(request, **options)

    monkeypatch.setattr(engine, "submit", note)
    with priority(Priority.PROACTIVE):
        create_agent(chat, []).invoke(ASKED)
        asyncio.run(create_agent(chat, []).ainvoke(ASKED))
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


def test_wrong_use_raises(chat: ChatAgentRT) -> None:
    with pytest.raises(InvalidRequestError, match="no tool is called 'other'"):
        chat.bind_tools([get_weather], tool_choice="other").invoke([QUESTION])
    with pytest.raises(ConfigurationError, match="only one of the two"):
        ChatAgentRT(runtime=chat.runtime, model="other")
    with pytest.raises(ModelNotFoundError):
        ChatAgentRT(model="no-such-model")
    with pytest.raises(InvalidRequestError, match=r"foo.*no such option.*temperature"):
        chat.invoke("hi", foo=1)
    with pytest.raises(InvalidRequestError, match="empty"):
        chat.invoke("")


def test_speculation_beside_the_local_model(chat: ChatAgentRT) -> None:
    started = threading.Event()

    @speculable
    @tool
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        started.set()
        return RESULT

    plain = create_agent(chat, [get_weather], system_prompt=SYSTEM.text).invoke(ASKED)
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
    fast = create_agent(model, [get_weather], system_prompt=SYSTEM.text).invoke(ASKED)
    assert [m.text for m in fast["messages"]] == [m.text for m in plain["messages"]]
    assert report_of(model).total.claims == 1


def test_the_thread_of_a_graph_is_a_session(exact_runtime: LocalRuntime) -> None:
    chat = ChatAgentRT(runtime=exact_runtime, max_tokens=4, app="graphs")
    agent = create_agent(chat, [], checkpointer=InMemorySaver())
    service = exact_runtime.bind("graphs")
    sessions = lambda: sorted(str(context.session) for context in service.contexts())  # noqa: E731

    def thread(name: str) -> Any:
        return {"configurable": {"thread_id": name}}

    chat.invoke([QUESTION])
    assert sessions() == []
    agent.invoke(ASKED, thread("one"))
    agent.invoke(ASKED, thread("one"))
    list(agent.stream(ASKED, thread("two"), stream_mode="messages"))
    asyncio.run(agent.ainvoke(ASKED, thread("three")))
    assert sessions() == ["one", "three", "two"]
    chat.bind(session="mine").invoke([QUESTION])
    assert "mine" in sessions()
    for context in service.contexts():
        service.delete(context)


@pytest.mark.parametrize(
    "thread", [7, uuid.UUID(int=7), "", "x" * 257, "a\nb"], ids=["int", "UUID", "empty", "long", "lines"]
)
def test_a_thread_that_cannot_name_a_session_is_refused(exact_runtime: LocalRuntime, thread: Any) -> None:
    chat = ChatAgentRT(runtime=exact_runtime, max_tokens=4, app="graphs")
    config: Any = {"configurable": {"thread_id": thread}}
    agent = create_agent(chat, [], checkpointer=InMemorySaver())
    ways: list[Callable[[], Any]] = [
        lambda: agent.invoke(ASKED, config),
        lambda: list(agent.stream(ASKED, config, stream_mode="messages")),
        lambda: asyncio.run(agent.ainvoke(ASKED, config)),
    ]
    for way in ways:
        with pytest.raises(InvalidRequestError, match=r"str\(thread_id\)") as caught:
            way()
        assert caught.value.field == "thread_id"
    assert exact_runtime.bind("graphs").contexts() == []
    for session in (None, "mine"):  # the way out that the message names
        bound = chat.bind(session=session)
        ask: Any = lambda state, bound=bound: {"messages": [bound.invoke(state["messages"])]}  # noqa: E731
        in_line(model=ask).compile().invoke(ASKED, config)
    (context,) = exact_runtime.bind("graphs").contexts()
    assert context.session == "mine"
    exact_runtime.bind("graphs").delete(context)


# Numbers of tokens.

CALL: Any = {"name": "get_weather", "args": {"city": "Oslo"}, "id": "call_1", "type": "tool_call"}
HISTORY: list[BaseMessage] = [
    SYSTEM,
    QUESTION,
    AIMessage("", tool_calls=[CALL]),
    ToolMessage('{"temperature": 12}', tool_call_id="call_1"),
    AIMessage("In Oslo it is 12 degrees."),
    HumanMessage("Thanks!"),
]


def test_tokens_of_a_text(chat: ChatAgentRT) -> None:
    ids = chat.get_token_ids("What is the weather?")
    assert chat.get_num_tokens("What is the weather?") == len(ids) > 1
    assert b"".join(map(chat.runtime.token_text, ids)) == b"What is the weather?"
    mine = chat.model_copy(update={"custom_get_token_ids": lambda text: [1, 2, 3]})
    assert mine.get_token_ids("x") == [1, 2, 3]
    assert mine.get_num_tokens_from_messages(HISTORY[:2]) == 6


@pytest.mark.parametrize("tools", [[], [get_weather]])
@pytest.mark.parametrize("length", [2, 4, 6])
def test_a_prompt_is_counted_as_the_answer_counts_it(
    chat: ChatAgentRT, tools: list[Any], length: int
) -> None:
    usage = chat.bind_tools(tools).invoke(HISTORY[:length]).usage_metadata
    assert chat.get_num_tokens_from_messages(HISTORY[:length], tools) == usage["input_tokens"]


def test_every_part_of_a_conversation_has_a_number(chat: ChatAgentRT) -> None:
    count = chat.get_num_tokens_from_messages
    assert count([]) == 0
    for first in range(len(HISTORY)):
        for last in range(first + 1, len(HISTORY) + 1):
            assert 0 < count(HISTORY[first:last]) <= count(HISTORY[first:last], [get_weather])
    for empty in (HumanMessage(""), HumanMessage([])):
        with pytest.raises(InvalidRequestError):
            chat.invoke([*HISTORY, empty])
        assert count(HISTORY) <= count([*HISTORY, empty])
        assert count([*HISTORY, empty]) < count([*HISTORY, empty], [get_weather])


@pytest.mark.parametrize(
    "options", [{}, {"strategy": "first"}, {"allow_partial": True}, {"start_on": "human"}]
)
def test_histories_are_trimmed_to_what_the_model_counts(chat: ChatAgentRT, options: Any) -> None:
    long = [*HISTORY[:5], *(HumanMessage(f"Question {number}?") for number in range(300)), HISTORY[5]]
    with pytest.raises(PromptTooLongError):
        chat.invoke(long)
    limit = 500
    with_system = {} if options.get("strategy") == "first" else {"include_system": True}
    kept = trim_messages(long, max_tokens=limit, token_counter=chat, **with_system, **options)
    assert 2 < len(kept) < len(long)
    assert isinstance(kept[0], SystemMessage)
    answer = chat.invoke(kept)
    assert limit - 30 < answer.usage_metadata["input_tokens"] <= limit


def test_a_history_is_summarized_within_the_context_of_the_model(exact_runtime: LocalRuntime) -> None:
    chat = ChatAgentRT(runtime=exact_runtime, max_tokens=16)
    history: list[Any] = []
    for number in range(200):
        history += [HumanMessage(f"What is the weather in town {number}?"), AIMessage("It is cold and wet.")]
    assert chat.get_num_tokens_from_messages(history) > exact_runtime.context_length
    middleware = SummarizationMiddleware(
        chat,
        trigger=("fraction", 0.5),  # of the profile's max_input_tokens
        keep=("messages", 4),
        token_counter=chat.get_num_tokens_from_messages,
        summary_prompt="Summarize:\n{messages}",
        trim_tokens_to_summarize=None,  # so that the summary's own prompt is too long, and is cut
    )
    answered: Any = create_agent(chat, [], middleware=[middleware]).invoke(
        {"messages": [*history, HumanMessage("Hello!")]}
    )
    assert answered["messages"][-1].text
    assert len(answered["messages"]) < 10


# Messages in the shape of other providers, and of version 1 of content.

SHAPES: list[Any] = [
    [{"type": "text", "text": "I look."}, CALL],
    [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {}},
    ],
    [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "I look."}, CALL],
    [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "I look."}],
]


@pytest.mark.parametrize("content", SHAPES, ids=["v1", "anthropic", "reasoning", "thinking"])
def test_blocks_that_repeat_a_call_or_reason_are_left_out(content: Any) -> None:
    (message,) = openai_messages([AIMessage(content, tool_calls=[CALL])])
    assert message["content"] == "I look."
    assert [call["id"] for call in message["tool_calls"]] == ["call_1"]


def test_a_call_that_is_in_the_content_only_stays() -> None:
    block = {"type": "tool_use", "id": "call_2", "name": "get_weather", "input": {"city": "Rome"}}
    (message,) = openai_messages([AIMessage([block])])
    assert [call["id"] for call in message["tool_calls"]] == ["call_2"]


@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_goes_on_with_messages_of_version_1(exact_runtime: LocalRuntime, streaming: bool) -> None:
    def messages(output_version: str) -> list[Any]:
        chat = ChatAgentRT(
            runtime=exact_runtime, max_tokens=64, output_version=output_version, streaming=streaming
        )
        return create_agent(chat, [get_weather]).invoke(ASKED)["messages"]  # type: ignore[no-any-return]

    old, new = messages("v0"), messages("v1")
    assert [type(message) for message in new] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert [message.text for message in new] == [message.text for message in old]
    assert new[-1].content[0]["type"] == "text"
