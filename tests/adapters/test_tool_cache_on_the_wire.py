"""What an endpoint with the tool cache of SpecTools §4.1 receives, with and without the capability."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agentrt import ToolCall, speculable
from agentrt.adapters import langchain
from agentrt.adapters.openai import speculate
from agentrt.adapters.openai.tool_cache import CAPABILITY
from agentrt.testing import ScriptedSpeculator
from tests.adapters.openai.doubles import TOOLS
from tests.adapters.recording_server import RecordingServer, recording_server

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
    for _ in range(2000):
        if cache._failures == refusals:
            return
        asyncio.run(asyncio.sleep(0.005))
    raise AssertionError(cache._failures)
