"""For how long tools usually run, as requests say it: to agentrt's own server, of the tools they offer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, Runner, function_tool
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from agentrt import Priority, SpeculationConfig, ToolCall, priority, speculable
from agentrt.adapters import anthropic, langchain, openai, openai_agents
from agentrt.adapters.langchain import ChatAgentRT
from agentrt.adapters.pydantic_ai import SpeculateTools
from agentrt.config import TurnAhead
from agentrt.dialects import AgentRTServer
from agentrt.errors import ConfigurationError
from agentrt.reports.events import CallMissed
from agentrt.testing import ScriptedSpeculator
from tests.adapters.anthropic.doubles import ASKED
from tests.adapters.openai.doubles import RESPONSES_TOOLS, TOOLS
from tests.adapters.recording_server import Body, Received, RecordingServer, recording_server

OTHER: Any = [{"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}]
ASK: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [*TOOLS, *OTHER]}


@speculable
def look(q: str = "") -> str:
    """Look."""
    return f"found {q}"


def calls(body: Body) -> list[tuple[str, str, str]]:
    """Call the tool until the request has its result."""
    return [] if "found a" in json.dumps(body) else [("look", '{"q": "a"}', "call_1")]


def times(server: RecordingServer) -> list[Any]:
    """What the model requests said, in the order of their arrival."""
    return [one.body.get("tool_seconds") for one in server.received if not one.path.endswith("models")]


# Each way to run a loop of two requests in a dialect; the tool runs between the two.

Loop = Callable[[RecordingServer, Any], object]


def with_client(server: RecordingServer, dialect: Any) -> None:
    client = openai.speculate(server.client(), ScriptedSpeculator(), tools=[look], dialect=dialect)
    with client:
        message = client.chat.completions.create(**ASK).choices[0].message
        (call,) = message.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": openai.run_tool(client, call)}
        client.chat.completions.create(**{**ASK, "messages": [message.model_dump(), result]})


def with_streamed_responses(server: RecordingServer, dialect: Any) -> None:
    async def main() -> None:
        client = openai.speculate(server.async_client(), ScriptedSpeculator(), tools=[look], dialect=dialect)
        asked: Any = {"model": "m", "tools": RESPONSES_TOOLS, "stream": True}
        async with client:
            events = [event async for event in await client.responses.create(**asked, input="Hi")]
            (item,) = [event.item for event in events if event.type == "response.output_item.done"]
            output = await openai.arun_tool(client, item)
            told: Any = {"type": "function_call_output", "call_id": item.call_id, "output": output}
            stream = await client.responses.create(**asked, input=[item.model_dump(), told])
            assert [event async for event in stream]

    asyncio.run(main())


def with_messages(server: RecordingServer, dialect: Any) -> None:
    client = anthropic.speculate(
        server.anthropic_client(), ScriptedSpeculator(), tools=[look], dialect=dialect
    )
    history: Any = [{"role": "user", "content": "Hi"}]
    with client:
        for _ in range(2):
            with client.messages.stream(**ASKED, messages=history) as stream:
                message = stream.get_final_message()
            history.append({"role": "assistant", "content": [each.model_dump() for each in message.content]})
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": anthropic.run_tool(client, block)}
                for block in message.content
                if block.type == "tool_use"
            ]
            history.append({"role": "user", "content": results})


def look_plainly(q: str) -> str:
    """Look."""
    return f"found {q}"


def with_langchain(server: RecordingServer, dialect: Any) -> None:
    chat = langchain.speculate(server.chat(), ScriptedSpeculator(), dialect=dialect)
    agent = create_agent(chat, [speculable(tool("look")(look_plainly))])
    asked: Any = {"messages": [HumanMessage("Hi")]}
    assert list(agent.stream(asked, stream_mode="messages"))


def with_agents_sdk(kind: Any) -> Loop:
    def run(server: RecordingServer, dialect: Any) -> None:
        async def main() -> None:
            client = openai.prioritized(server.async_client(), dialect=dialect)
            model = openai_agents.speculate(kind("m", client), ScriptedSpeculator())
            described = speculable(function_tool(look_plainly, name_override="look"))
            agent = Agent(name="a", model=model, tools=[described])
            await Runner.run(agent, "Hi", run_config=RunConfig(tracing_disabled=True))

        asyncio.run(main())

    return run


def with_pydantic_ai(server: RecordingServer, dialect: Any) -> None:
    client = openai.prioritized(server.async_client(), dialect=dialect)
    model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
    speculation: Any = SpeculateTools(ScriptedSpeculator(), tools=["look"])
    agent = PydanticAgent(model, capabilities=[speculation])
    agent.tool_plain(name="look")(look_plainly)
    asyncio.run(agent.run("Hi"))


LOOPS: dict[str, Loop] = {
    "client": with_client,
    "streamed responses": with_streamed_responses,
    "messages": with_messages,
    "langchain": with_langchain,
    "agents sdk": with_agents_sdk(OpenAIChatCompletionsModel),
    "agents sdk, responses": with_agents_sdk(OpenAIResponsesModel),
    "pydantic-ai": with_pydantic_ai,
}
EACH_LOOP = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)


@EACH_LOOP
def test_a_request_names_the_time_of_a_tool_that_has_run(loop: Loop) -> None:
    with recording_server(calls=calls) as server:
        loop(server, "agentrt")
        first, second = times(server)
    assert first is None
    assert second.keys() == {"look"}  # not of the tools that were never seen to run
    assert 0 <= second["look"] < 60


@EACH_LOOP
@pytest.mark.parametrize("dialect", [None, "vllm", "sglang", "dynamo", "llm-d", "litellm", "service_tier"])
def test_no_other_endpoint_is_told(loop: Loop, dialect: str | None) -> None:
    with recording_server(calls=calls) as server:
        loop(server, dialect)
        assert times(server) == [None, None]


def known_client(server: RecordingServer, **settings: Any) -> Any:
    """A client that has asked once, so that it knows how long ``look`` runs."""
    client = openai.speculate(server.client(), ScriptedSpeculator(), tools=[look], **settings)
    (call,) = client.chat.completions.create(**ASK).choices[0].message.tool_calls
    openai.run_tool(client, call)
    server.received.clear()
    return client


def test_a_server_is_told_once_its_answer_has_shown_what_it_is() -> None:
    shown = {"x-agentrt-priority": "reactive"}
    with recording_server(calls=calls, headers=shown) as server, known_client(server) as client:
        client.chat.completions.create(**ASK)
        assert [each.keys() for each in times(server)] == [{"look"}]


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        (None, True),
        (["cache-tool-output", "tool_seconds"], True),
        (["cache-tool-output"], False),
        ([], False),
    ],
)
def test_a_server_that_lists_its_capabilities_without_this_one_is_not_told(
    listed: list[str] | None, told: bool
) -> None:
    told_of = recording_server(calls=calls, capabilities=listed)
    with told_of as server, known_client(server, dialect="agentrt") as client:
        assert list(client.models.list())
        client.chat.completions.create(**ASK)
        (sent,) = times(server)
        assert (sent is not None) is told
        client.copy(base_url=server.url).chat.completions.create(**ASK)  # as if it were another endpoint
        assert times(server)[1] is not None


@pytest.mark.parametrize(
    "changed", [{"tools": OTHER}, {"tool_choice": "none"}, {"tools": []}, {"tools": [{"type": "search"}]}]
)
def test_a_tool_that_a_request_does_not_offer_is_not_named(changed: Any) -> None:
    with recording_server(calls=calls) as server, known_client(server, dialect="agentrt") as client:
        client.chat.completions.create(**{**ASK, **changed})
        assert times(server) == [None]


def test_what_the_user_sets_stays() -> None:
    with recording_server(calls=calls) as server, known_client(server, dialect="agentrt") as client:
        client.chat.completions.create(**ASK, extra_body={"tool_seconds": {"look": 7.5, "other": 1}})
        (sent,) = times(server)
    assert sent == {"look": 7.5, "other": 1}


def test_a_server_that_refuses_the_field_gets_the_request_without_it_and_priorities_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(received: Received) -> tuple[int, str] | None:
        if "tool_seconds" in received.body:
            return 400, "body.tool_seconds: extra inputs are not permitted"
        return None

    with recording_server(calls=calls, refuse=refuse) as server, priority(Priority.PROACTIVE):
        with known_client(server, dialect="agentrt") as client:
            for _ in range(2):
                assert client.chat.completions.create(**ASK).choices
        assert [each is None for each in times(server)] == [False, True, True]
        assert server.sent == [10, None, 10]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "refuses the times of tools in the dialect 'agentrt'" in warning.getMessage()


def test_a_request_sent_ahead_says_it_too() -> None:
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1))
    drafts = ScriptedSpeculator([ToolCall("look", {"q": "a"})])
    with recording_server(calls=calls) as server:
        client = openai.speculate(server.client(), drafts, tools=[look], config=config, dialect="agentrt")
        with client:
            for _ in range(3):
                messages = list(ASK["messages"])
                message = client.chat.completions.create(**ASK).choices[0].message
                (call,) = message.tool_calls
                told = {"role": "tool", "tool_call_id": call.id, "content": openai.run_tool(client, call)}
                messages += [message.model_dump(exclude_none=True), told]
                client.chat.completions.create(**{**ASK, "messages": messages})
    # The first request, and the one sent ahead of the second, are sent before any run is claimed.
    assert [each is None for each in times(server)].count(True) <= 2


def test_a_dialect_of_your_own_says_it_in_its_words() -> None:
    class Mine(AgentRTServer):
        name = "mine"

        def hints(self, tool_seconds: Any, capabilities: Any) -> Any:
            return {"vllm_xargs": {"longest_tool_s": max(tool_seconds.values())}}

    with recording_server(calls=calls) as server, known_client(server, dialect=Mine()) as client:
        client.chat.completions.create(**ASK, extra_body={"vllm_xargs": {"other": 1}})
        (received,) = server.received
    assert received.body["vllm_xargs"].keys() == {"other", "longest_tool_s"}


@pytest.mark.parametrize("use_async", [False, True])
def test_a_local_model_is_told_as_well(exact_runtime: Any, use_async: bool) -> None:
    class Spy:
        def __init__(self) -> None:
            self.options: list[dict[str, Any]] = []

        def __getattr__(self, name: str) -> Any:
            found = getattr(exact_runtime, name)
            if name not in ("iter_stream", "start"):
                return found

            def noting(messages: Any, **options: Any) -> Any:
                self.options.append(options)
                return found(messages, **options)

            return noting

    spy = Spy()
    chat = langchain.speculate(ChatAgentRT(runtime=spy, max_tokens=2), ScriptedSpeculator())
    event = CallMissed(1, tool="look", tool_s=4.0, reason="no draft")
    chat._agentrt_state.turns._shared.reporter.note(event)  # type: ignore[attr-defined]
    bound = chat.bind_tools([speculable(tool("look")(look_plainly))])

    async def stream() -> None:
        assert [chunk async for chunk in bound.astream("Hi")]

    if use_async:
        asyncio.run(stream())
    else:
        assert list(bound.stream("Hi"))
    assert [options.get("tool_seconds") for options in spy.options] == [{"look": 4.0}]
    spy.options.clear()
    assert list(chat.bind_tools([tool("other")(look_plainly)]).stream("Hi"))
    assert "tool_seconds" not in spy.options[0]


def test_only_clients_can_be_given_a_dialect() -> None:
    for client in (object(), "client"):
        with pytest.raises(ConfigurationError, match="an OpenAI or Anthropic client"):
            openai.prioritized(client, dialect="agentrt")
    with recording_server() as server, pytest.raises(ConfigurationError, match="no dialect"):
        openai.prioritized(server.client(), dialect="agent")
