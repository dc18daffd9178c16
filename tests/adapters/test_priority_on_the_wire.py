"""What a server receives inside ``with priority(…)``, for each dialect and each way to send a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from typing import Any

import openai
import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agentrt import DraftRequest, Priority, SpeculationConfig, ToolCall, priority, run_scope, speculable
from agentrt.adapters import langchain
from agentrt.adapters.openai import run_tool, speculate
from agentrt.config import TurnAhead
from agentrt.dialects import VLLM, Dialect, LlmD, SGLang
from agentrt.errors import ConfigurationError
from agentrt.speculators import EndpointSpeculator
from agentrt.testing import ScriptedSpeculator
from tests.adapters.openai.doubles import RESPONSES_TOOLS, TOOLS
from tests.adapters.recording_server import Received, RecordingServer, recording_server
from tests.patience import until

WITHOUT_TOOLS: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
CHAT: Any = {**WITHOUT_TOOLS, "tools": TOOLS}
RESPONSES: Any = {"model": "m", "input": "Hi", "tools": RESPONSES_TOOLS}
PROACTIVE, REACTIVE = Priority.PROACTIVE, Priority.REACTIVE


@speculable
def look(q: str = "") -> str:
    return q


def client_of(server: RecordingServer, **settings: Any) -> Any:
    return speculate(server.client(), ScriptedSpeculator(), tools=[look], **settings)


def aclient_of(server: RecordingServer, **settings: Any) -> Any:
    return speculate(server.async_client(), ScriptedSpeculator(), tools=[look], **settings)


def chat_of(server: RecordingServer, drafts: Sequence[ToolCall] = (), **settings: Any) -> Any:
    return langchain.speculate(server.chat(), ScriptedSpeculator(list(drafts)), **settings)


# Each way to send one request in a dialect.

Send = Callable[..., None]


def by_client(ask: Callable[[Any], object]) -> Send:
    def send(server: RecordingServer, **settings: Any) -> None:
        with client_of(server, **settings) as client:
            assert ask(client)

    return send


def by_async_client(ask: Callable[[Any], Coroutine[Any, Any, object]]) -> Send:
    def send(server: RecordingServer, **settings: Any) -> None:
        async def main() -> None:
            async with aclient_of(server, **settings) as client:
                assert await ask(client)

        asyncio.run(main())

    return send


def unread(client: Any) -> object:
    with client.chat.completions.with_streaming_response.create(**CHAT) as response:
        return response.read()


async def events_of_a_stream(client: Any) -> object:
    return [event async for event in await client.responses.create(**RESPONSES, stream=True)]


def look_plainly(q: str) -> str:
    """Look."""
    return q


def langchain_streamed(server: RecordingServer, **settings: Any) -> None:
    bound = chat_of(server, **settings).bind_tools([speculable(tool(look_plainly))])
    assert list(bound.stream([HumanMessage("Hi")]))


def langchain_responses(server: RecordingServer, **settings: Any) -> None:
    plain = server.chat(use_responses_api=True)
    langchain.speculate(plain, ScriptedSpeculator(), **settings).invoke([HumanMessage("Hi")])


def drafts(server: RecordingServer, **settings: Any) -> None:
    async def main() -> None:
        speculator = EndpointSpeculator("m", base_url=server.url, api_key="none", **settings)
        async for _ in speculator.drafts(DraftRequest(CHAT["messages"], TOOLS)):
            pass
        await speculator.aclose()

    asyncio.run(main())


whole = by_client(lambda client: client.chat.completions.create(**CHAT))
responses = by_client(lambda client: client.responses.create(**RESPONSES))
WAYS: dict[str, Send] = {
    "whole": whole,
    "streamed": by_client(lambda client: list(client.chat.completions.create(**CHAT, stream=True))),
    "raw": by_client(lambda client: client.chat.completions.with_raw_response.create(**CHAT).parse()),
    "unread": by_client(unread),
    "with options": by_client(lambda client: client.with_options(timeout=60).chat.completions.create(**CHAT)),
    "responses": responses,
    "streamed responses": by_client(lambda client: list(client.responses.create(**RESPONSES, stream=True))),
    "without tools": by_client(
        lambda client: client.chat.completions.create(model="m", messages=CHAT["messages"])
    ),
    "async": by_async_client(lambda client: client.chat.completions.create(**CHAT)),
    "async streamed": by_async_client(events_of_a_stream),
    "langchain": lambda server, **settings: chat_of(server, **settings).invoke([HumanMessage("Hi")]),
    "langchain streamed": langchain_streamed,
    "langchain async": lambda server, **settings: asyncio.run(
        chat_of(server, **settings).ainvoke([HumanMessage("Hi")])
    ),
    "langchain responses": langchain_responses,
    "drafts": drafts,
}
EACH_WAY = pytest.mark.parametrize("send", WAYS.values(), ids=WAYS)


@EACH_WAY
def test_every_request_carries_its_priority(send: Send) -> None:
    with recording_server() as server:
        for value in (PROACTIVE, REACTIVE):
            with priority(value):
                send(server, dialect="vllm")
        assert server.sent == [10, 0]


@EACH_WAY
def test_nothing_is_sent_to_an_endpoint_that_is_not_known_or_without_a_priority(
    send: Send,
) -> None:
    with recording_server() as server:
        with priority(PROACTIVE):
            send(server)
        send(server, dialect="vllm")
        assert server.sent == [None, None]
        for one in server.received:
            assert not {name for name in one.headers if "priority" in name or "session" in name}
            assert not {"nvext", "service_tier"} & one.body.keys()


def received_in(dialect: Dialect | str, value: Priority | None, send: Any = whole) -> Received:
    """What arrives of one request of a run in this dialect."""
    given = nullcontext() if value is None else priority(value)
    with recording_server() as server, run_scope("Ada's mail"), given:
        send(server, dialect=dialect)
        return server.received[0]


@pytest.mark.parametrize(
    ("dialect", "value", "fields"),
    [
        ("vllm", PROACTIVE, {"priority": 10}),
        ("vllm", REACTIVE, {"priority": 0}),
        ("vllm", None, {}),
        ("sglang", PROACTIVE, {"priority": -100}),
        ("sglang", REACTIVE, {"priority": 0}),
        ("sglang", None, {"priority": 0}),  # it serves requests without one last
        (SGLang(low_values_first=True), PROACTIVE, {"priority": 100}),
        ("dynamo", PROACTIVE, {"nvext": {"agent_hints": {"priority": 0}}}),
        ("dynamo", REACTIVE, {"nvext": {"agent_hints": {"priority": 100}}}),
        ("dynamo", None, {"nvext": {"agent_hints": {"priority": 100}}}),
        ("litellm", PROACTIVE, {"priority": 10}),
        ("agentrt", PROACTIVE, {"priority": 10}),
        ("service_tier", PROACTIVE, {"service_tier": "flex"}),
        ("service_tier", REACTIVE, {"service_tier": "priority"}),
        ("service_tier", None, {}),
        ("llm-d", PROACTIVE, {}),
    ],
)
def test_the_fields_of_a_dialect(dialect: Any, value: Priority | None, fields: dict[str, Any]) -> None:
    body = received_in(dialect, value).body
    assert {name: body[name] for name in ("priority", "nvext", "service_tier") if name in body} == fields


def test_the_headers_of_llm_d() -> None:
    def sent(dialect: Any, value: Priority) -> dict[str, str]:
        headers = received_in(dialect, value).headers
        return {name: text for name, text in headers.items() if "inference" in name}

    assert sent("llm-d", PROACTIVE) == {"x-llm-d-inference-objective": "proactive"}
    batch = LlmD(reactive=None, proactive="batch", fairness_id="mail", header_prefix="x-gateway-inference-")
    assert sent(batch, PROACTIVE) == {
        "x-gateway-inference-objective": "batch",
        "x-gateway-inference-fairness-id": "mail",
    }
    assert sent(batch, REACTIVE) == {"x-gateway-inference-fairness-id": "mail"}


def test_a_session_of_dynamo_is_one_run_and_does_not_name_it() -> None:
    with recording_server() as server, client_of(server, dialect="dynamo") as client:
        for scope in ("Ada", "Ada", "Bob"):
            with run_scope(scope):
                client.chat.completions.create(**CHAT)
        client.chat.completions.create(**CHAT)
        first, second, other, none = [one.headers.get("x-dynamo-session-id") for one in server.received]
    assert first == second != other
    assert none is None
    assert "Ada" not in str(first)


@pytest.mark.parametrize("use_async", [False, True])
def test_requests_sent_ahead_are_of_the_same_session(use_async: bool) -> None:
    """The run is a thread of LangGraph: no scope is set by hand."""
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1))
    with recording_server(calls=calls_until_answered) as server:

        def hold_the_first(received: Received) -> None:
            if not any(message["role"] == "tool" for message in received.body["messages"]):
                until(lambda: len(server.received) > 1)  # the request sent ahead

        server.refuse = hold_the_first
        chat = chat_of(server, [ToolCall("look", {"q": "a"})], dialect="dynamo", config=config)
        tools = [speculable(tool("look")(look_plainly))]
        agent = create_agent(chat, tools, checkpointer=InMemorySaver())
        asked: Any = {"messages": [HumanMessage("Hi")]}
        thread: Any = {"configurable": {"thread_id": "Ada"}}
        if use_async:
            asyncio.run(agent.ainvoke(asked, thread))
        else:
            agent.invoke(asked, thread)
        sessions = [one.headers.get("x-dynamo-session-id") for one in server.received]
    assert len(sessions) == 2
    assert len(set(sessions)) == 1
    assert None not in sessions


def test_litellm_queues_no_responses() -> None:
    assert "priority" not in received_in("litellm", PROACTIVE, responses).body


def test_other_requests_carry_nothing() -> None:
    with recording_server() as server, client_of(server, dialect="dynamo") as client, priority(PROACTIVE):
        client.post("/embeddings", cast_to=object, body={"input": "a"})
        (received,) = server.received
    assert received.body == {"input": "a"}
    assert "x-dynamo-session-id" not in received.headers


def test_what_the_user_sets_stays() -> None:
    own = {"priority": 3, "nvext": {"agent_hints": {"osl": 9}, "use_raw_prompt": True}}
    with recording_server() as server, priority(PROACTIVE):
        for dialect in ("vllm", "dynamo"):
            with client_of(server, dialect=dialect) as client:
                client.chat.completions.create(**CHAT, extra_body=own)
        with client_of(server, dialect="service_tier") as client:
            client.chat.completions.create(**CHAT, service_tier="default")
        with client_of(server, dialect="llm-d").with_options(
            default_headers={"X-LLM-D-Inference-Objective": "mine"}
        ) as client:
            client.chat.completions.create(**CHAT)
        vllm, dynamo, tier, llm_d = server.received
    assert vllm.body["priority"] == 3
    assert dynamo.body["nvext"] == {"agent_hints": {"osl": 9, "priority": 0}, "use_raw_prompt": True}
    assert tier.body["service_tier"] == "default"
    assert llm_d.headers["x-llm-d-inference-objective"] == "mine"


# Recognising an endpoint by its answers.


@pytest.mark.parametrize(
    ("shown", "proactive", "reactive"),
    [
        ({"fields": {"kv_transfer_params": None}}, 10, None),
        ({"choice_fields": {"matched_stop": None}}, -100, 0),
        ({"headers": {"x-litellm-version": "1.90"}}, 10, None),
        ({"headers": {"X-AgentRT-Priority": "reactive"}}, 10, None),
        ({"fields": {"kv_transfer_params": None}, "headers": {"x-litellm-call-id": "a"}}, 10, None),
        ({}, None, None),
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_an_endpoint_is_recognised_by_its_first_answer(
    shown: dict[str, Any], proactive: int | None, reactive: int | None, raw: bool
) -> None:
    with recording_server(**shown) as server, client_of(server) as client:
        completions = client.chat.completions
        create = completions.with_raw_response.create if raw else completions.create
        create(**CHAT)
        with priority(PROACTIVE):
            create(**CHAT)
        create(**CHAT)
        assert server.sent == [None, proactive, reactive]
        assert len(server.received) == 3  # it was not asked what it is


@pytest.mark.parametrize(("owner", "value"), [("vllm", 10), ("sglang", -100), ("agentrt", 10), ("x", None)])
def test_an_endpoint_is_recognised_by_the_owner_of_its_models(owner: str, value: int | None) -> None:
    with recording_server(owned_by=owner) as server, priority(PROACTIVE):
        with client_of(server) as client:
            assert list(client.models.list())
            client.chat.completions.create(**CHAT)

        async def main() -> None:
            async with aclient_of(server) as client:
                assert [model async for model in client.models.list()]
                await client.chat.completions.create(**CHAT)

        asyncio.run(main())
        assert server.sent == [value, value]


def test_headers_of_a_stream_are_evidence_as_well() -> None:
    with recording_server(headers={"x-litellm-version": "1"}) as server, client_of(server) as client:
        with priority(PROACTIVE):
            for _ in range(2):
                assert list(client.chat.completions.create(**CHAT, stream=True))
        assert server.sent == [None, 10]


def test_a_copy_for_another_endpoint_has_learned_nothing() -> None:
    with recording_server(owned_by="vllm") as server, recording_server() as other:
        with client_of(server) as client, priority(PROACTIVE):
            assert list(client.models.list())
            client.with_options(timeout=60).chat.completions.create(**CHAT)
            client.copy(base_url=other.url).chat.completions.create(**CHAT)
        assert (server.sent, other.sent) == ([10], [None])


# Endpoints that refuse.


def refuse_priority(received: Received) -> tuple[int, str] | None:
    if received.body.get("priority"):
        return 400, "Got priority 10 but Priority scheduling is not enabled."
    return None


@EACH_WAY
def test_a_refused_priority_is_left_out(send: Send, caplog: pytest.LogCaptureFixture) -> None:
    with recording_server(refuse=refuse_priority) as server, priority(PROACTIVE):
        send(server, dialect="vllm")
        assert server.sent == [10, None]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "refuses priorities in the dialect 'vllm'" in warning.getMessage()


def test_a_refusal_is_remembered_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with recording_server(refuse=refuse_priority) as server, client_of(server, dialect="vllm") as client:
        with priority(PROACTIVE):
            for _ in range(3):
                client.chat.completions.create(**CHAT)
        assert server.sent == [10, None, None, None]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


@pytest.mark.parametrize("status", [400, 422, 429])
def test_another_refusal_is_raised_and_proves_nothing(status: int) -> None:
    refusals = iter([(status, "messages: too many"), None])
    with recording_server(refuse=lambda _: next(refusals)) as server:
        with client_of(server, dialect=VLLM()) as client, priority(PROACTIVE):
            with pytest.raises(openai.APIStatusError):
                client.chat.completions.create(**CHAT)
            client.chat.completions.create(**CHAT)
        assert server.sent == [10, 10]


def test_a_request_that_is_refused_either_way_raises_and_proves_nothing() -> None:
    refusals = iter([(400, "priority: no"), (400, "no such model"), None])
    with recording_server(refuse=lambda _: next(refusals)) as server:
        with client_of(server, dialect="vllm") as client, priority(PROACTIVE):
            with pytest.raises(openai.BadRequestError, match="no such model"):
                client.chat.completions.create(**CHAT)
            client.chat.completions.create(**CHAT)
        assert server.sent == [10, None, 10]


# Requests around the main one.


def calls_until_answered(body: dict[str, Any]) -> list[tuple[str, str, str]]:
    if any(message.get("role") == "tool" for message in body["messages"]):
        return []
    return [("look", '{"q": "a"}', "call_1")]


@pytest.mark.parametrize(("value", "sent"), [(PROACTIVE, 10), (REACTIVE, 0)])
def test_a_request_sent_ahead_has_the_priority_of_its_turn(value: Priority, sent: int) -> None:
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1))
    with recording_server(calls=calls_until_answered) as server:
        predictor = ScriptedSpeculator([ToolCall("look", {"q": "a"})])
        client = speculate(server.client(), predictor, tools=[look], config=config, dialect="vllm")
        messages = list(CHAT["messages"])
        with client, priority(value):
            for _ in range(2):
                answer = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
                message = answer.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                for call in message.tool_calls or ():
                    result = {"role": "tool", "tool_call_id": call.id, "content": run_tool(client, call)}
                    messages.append(result)
        assert len(server.sent) >= 2
        assert set(server.sent) == {sent}


def test_drafts_have_the_priority_of_the_main_request() -> None:
    with recording_server(calls=calls_until_answered) as main, recording_server() as small:
        predictor = EndpointSpeculator("s", base_url=small.url, api_key="none", dialect="vllm")
        main.refuse = lambda _: until(lambda: bool(small.received))
        with speculate(main.client(), predictor, tools=[look], dialect="sglang") as client:
            for value in (PROACTIVE, REACTIVE):
                small.received.clear()
                with priority(value):
                    client.chat.completions.create(**CHAT)
                assert small.sent == [int(value)]
        assert main.sent == [-100, 0]


def test_unknown_dialects_are_refused() -> None:
    for setting in ("vlm", 3, VLLM):
        with pytest.raises(ConfigurationError, match="no dialect"):
            speculate(openai.OpenAI(api_key="x"), ScriptedSpeculator(), tools=[look], dialect=setting)  # type: ignore[arg-type]
