"""What an endpoint with the tool cache of SpecTools §4.1 receives, with and without the capability."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agentrt import ToolCall, speculable
from agentrt.adapters import langchain
from agentrt.adapters.langchain.chat_model.answers import AnswerFormat, ChunkConverter
from agentrt.adapters.langchain.messages import openai_messages
from agentrt.adapters.openai import speculate
from agentrt.adapters.openai.tool_cache import CAPABILITY
from agentrt.calls import CallFinished, CallStarted, TextDelta
from agentrt.runtime import CallAnswered
from agentrt.testing import ScriptedSpeculator
from tests.adapters.openai.doubles import TOOLS
from tests.adapters.recording_server import RecordingServer, recording_server
from tests.patience import until

CHAT: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, "stream": True}
DRAFT = ToolCall("look", {"q": "a"})


@speculable(ttl=5)
def look(q: str) -> dict[str, str]:
    return {"found": q}


@speculable(ttl=5)
@tool("look")
def look_tool(q: str) -> str:
    """Look."""
    return '{"found": "a"}'


def sync_client(server: RecordingServer, tool_cache: Any) -> None:
    plain = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    with speculate(plain, ScriptedSpeculator([DRAFT]), tools=[look], tool_cache=tool_cache) as client:
        assert list(client.chat.completions.create(**CHAT))


def async_client(server: RecordingServer, tool_cache: Any) -> None:
    async def main() -> None:
        plain = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
        predictor = ScriptedSpeculator([DRAFT])
        async with speculate(plain, predictor, tools=[look], tool_cache=tool_cache) as client:
            assert [chunk async for chunk in await client.chat.completions.create(**CHAT)]

    asyncio.run(main())


def chat_openai(server: RecordingServer, tool_cache: Any) -> None:
    plain = ChatOpenAI(base_url=server.url, api_key="none", model="m", max_retries=0)  # type: ignore[arg-type]
    chat = langchain.speculate(plain, ScriptedSpeculator([DRAFT]), tool_cache=tool_cache)
    assert list(chat.bind_tools([look_tool]).stream([HumanMessage("Hi")]))


CLIENTS = [sync_client, async_client, chat_openai]


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_listed_capability_gets_entries_for_one_call_each(ask: Callable[..., None]) -> None:
    with recording_server(holds_streams=True, capabilities=[CAPABILITY]) as server:
        ask(server, True)
        (output,) = server.outputs
    assert output.path == "/v1/cache-tool-output/x"
    (entry,) = output.body
    assert 0 < entry.pop("keep_alive") <= 5
    assert entry == {"name": "look", "params": {"q": "a"}, "output": '{"found": "a"}', "reusable": False}
    assert [one.path for one in server.received].count("/v1/models") == 1


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_forced_endpoint_gets_the_papers_fields_and_is_not_asked_for_its_models(
    ask: Callable[..., None],
) -> None:
    with recording_server(holds_streams=True) as server:
        ask(server, "force")
        (output,) = server.outputs
    (entry,) = output.body
    assert entry.keys() == {"name", "params", "output", "keep_alive"}
    assert 0 < entry["keep_alive"] <= 5
    assert "/v1/models" not in [one.path for one in server.received]


def test_without_force_an_endpoint_that_lists_nothing_gets_nothing() -> None:
    with recording_server() as server:
        sync_client(server, True)
        assert server.outputs == []


def test_a_forced_endpoint_that_refuses_thrice_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(received: Any) -> tuple[int, str] | None:
        if "cache-tool-output" not in received.path:
            return None
        server.submitted.set()
        return 404, "no such path"

    with recording_server(holds_streams=True, refuse=refuse) as server:
        plain = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        turns = [[DRAFT] for _ in range(5)]
        with speculate(plain, ScriptedSpeculator(*turns), tools=[look], tool_cache="force") as client:
            for turn in range(5):
                server.submitted.clear()
                if turn >= 3:
                    server.submitted.set()
                assert list(client.chat.completions.create(**CHAT))
                settle(client, min(turn + 1, 3))
        assert len(server.outputs) == 3
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert ["has refused 3 tool outputs" in warning for warning in warnings] == [True]


def settle(client: Any, refusals: int) -> None:
    """Wait until the submitting thread has read the refusal."""
    cache = client._agentrt_state.tool_cache
    until(lambda: cache._failures == refusals)


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


ANSWERED = [
    chunk(role="assistant", content=""),
    chunk(content="I look. "),
    chunk(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": {"name": "look"}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"q": "a"}'}}]),
    chunk(tool_results=[{"index": 0, "tool_call_id": "c", "name": "look", "content": "A"}]),
    chunk(content="It is "),
    chunk(content="A."),
    chunk("stop"),
]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_message_with_an_answered_call_has_only_blocks(streaming: bool) -> None:
    with recording_server(events=ANSWERED) as server:
        plain = ChatOpenAI(base_url=server.url, api_key="none", model="m", max_retries=0, streaming=True)  # type: ignore[arg-type]
        chat = langchain.speculate(plain, ScriptedSpeculator(), tool_cache="force")
        bound = chat.bind_tools([look_tool])
        message: Any = None
        if streaming:
            for piece in bound.stream([HumanMessage("Hi")]):
                assert isinstance(piece.content, list)
                message = piece if message is None else message + piece
        else:
            message = bound.invoke([HumanMessage("Hi")])
    kinds = [block["type"] for block in message.content]
    assert kinds == ["text", "server_tool_call", "server_tool_result", "text"]
    assert [block["text"] for block in message.content if "text" in block] == ["I look. ", "It is A."]
    assert (message.text, message.tool_calls) == ("I look. It is A.", [])
    (call, result, answer) = openai_messages([message])
    assert (call["content"], call["tool_calls"][0]["function"]["name"]) == ("I look. ", "look")
    assert (result["content"], answer["content"]) == ("A", "It is A.")


def test_the_runtime_s_messages_are_the_same_blocks() -> None:
    call = ToolCall("look", {"q": "a"}, "c")
    events: Any = [
        TextDelta("I look. "),
        CallStarted(0, "look"),
        CallFinished(0, call),
        CallAnswered(0, call, "A"),
        TextDelta("It is "),
        TextDelta("A."),
    ]
    runtime: Any = SimpleNamespace(model_id="nano")
    converter = ChunkConverter(AnswerFormat(runtime, in_blocks=True))
    first, *rest = [piece.message for event in events for piece in converter.chunks(event)]
    content = first.__add__(rest).content  # type: ignore[operator]
    assert [block["type"] for block in content] == ["text", "server_tool_call", "server_tool_result", "text"]
    assert [block["text"] for block in content if "text" in block] == ["I look. ", "It is A."]


def test_text_in_blocks_goes_back_to_the_model_as_text() -> None:
    blocks: Any = [{"type": "text", "text": "Hi", "index": "lc_txt_0"}]
    (message,) = openai_messages([AIMessage(blocks)])
    assert message["content"] == "Hi"
