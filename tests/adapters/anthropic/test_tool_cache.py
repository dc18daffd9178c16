"""Early results submitted by the Anthropic client to `agentrt serve`, and messages with answered calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from anthropic import Anthropic, AsyncAnthropic

from agentrt import ToolCall, speculable
from agentrt.adapters.anthropic import report_of, run_tool, speculate
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.anthropic.doubles import ASKED, async_client, events, message, sent
from tests.adapters.doubles import AskedAgain
from tests.adapters.stainless.doubles import HI, STREAM, look_tool
from tests.runtime.serving.http.serving import Running

pytestmark = pytest.mark.usefixtures("prediction_is_free")

QUESTION: Any = {"role": "user", "content": "What is the weather in Oslo?"}
OSLO = ToolCall("get_weather", {"city": "Oslo"})
WEATHER = {"city": "Oslo", "temperature": 12, "sky": "rain"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "Current weather in a city.", "input_schema": CITY}
BODY: Any = {"model": "nano", "messages": [QUESTION], "tools": [TOOL], "max_tokens": 80}


@speculable
def get_weather(city: str) -> dict[str, Any]:
    return WEATHER


def read(server: Running, predictor: Any, tool_cache: bool = True, tool: Any = get_weather) -> Any:
    """The whole of a streamed message for the sync client, and the client."""
    with Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60) as plain:
        client = speculate(plain, predictor, tools=[tool], tool_cache=tool_cache)
        with client.messages.stream(**BODY) as stream:
            for event in stream:
                if tells_a_result(event):
                    assert predictor.again.wait(30)
            return stream.get_final_message(), client


def aread(server: Running, predictor: Any) -> Any:
    """The same for the async one."""

    async def main() -> Any:
        async with AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60) as plain:
            client = speculate(plain, predictor, tools=[get_weather], tool_cache=True)
            async with client.messages.stream(**BODY) as stream:
                async for event in stream:
                    if tells_a_result(event):
                        assert await asyncio.to_thread(predictor.again.wait, 30)
                return await stream.get_final_message(), client

    return asyncio.run(main())


def tells_a_result(event: Any) -> bool:
    """Whether the answer goes on behind it: with the rest already received, it could end before any draft."""
    return bool(event.type == "content_block_start" and event.content_block.type == "tool_result")


@pytest.mark.parametrize("how", [read, aread])
@pytest.mark.usefixtures("in_time")
def test_a_message_goes_on_behind_its_call(server: Running, how: Callable[..., Any]) -> None:
    predictor = AskedAgain([OSLO])
    said, client = how(server, predictor)
    call, result, text = said.content
    assert [call.type, result.type, text.type] == ["tool_use", "tool_result", "text"]
    assert (result.tool_use_id, json.loads(result.content)) == (call.id, WEATHER)
    assert "12" in text.text
    assert said.stop_reason == "end_turn"
    total = report_of(client).total
    assert (total.claims, total.misses) == (1, 0)
    assert [part["role"] for part in predictor.requests[1].messages] == ["user", "assistant", "tool"]
    history = [
        *(QUESTION, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}),
        *({"role": "assistant", "content": [text]}, {"role": "user", "content": "Thank you."}),
    ]
    with Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60) as plain:
        assert plain.messages.create(**{**BODY, "messages": history}).content


@pytest.mark.parametrize("tool_cache", [False, True])
@pytest.mark.usefixtures("without_tool_cache")
def test_an_endpoint_without_one_answers_as_ever(
    server: Running, start_engine: Callable[[], None], tool_cache: bool
) -> None:
    @speculable
    def get_weather(city: str) -> dict[str, Any]:
        if not tool_cache:
            start_engine()
        return WEATHER

    said, client = read(server, ScriptedSpeculator([OSLO]), tool_cache, get_weather)
    assert said.stop_reason == "tool_use"
    assert run_tool(client, said.content[-1]) == WEATHER
    total = report_of(client).total
    assert (total.claims, total.misses) == (1, 0)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_calls_that_the_server_has_answered_are_none_of_the_client(is_streamed: bool) -> None:
    made = [("look", {"q": "q0"}, "id_1"), ("look", {"q": "q1"}, "id_2")]
    result = {"type": "tool_result", "tool_use_id": "id_1", "content": "found"}
    whole = message(made)
    steps = list(events(made, 0))
    place = {"index": 2}
    steps[-2:-2] = [
        {"type": "content_block_start", **place, "content_block": result},
        {"type": "content_block_stop", **place},
    ]
    whole["content"].append(result)
    content, kind = (sent(steps), STREAM) if is_streamed else (json.dumps(whole), "application/json")

    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(5)
        return httpx.Response(200, content=content, headers={"content-type": kind})

    async def main() -> Any:
        async with async_client(answer) as plain:
            draft = ToolCall("look", {"q": "q0", "limit": 3})
            client = speculate(plain, ScriptedSpeculator([draft]), tools=[look_tool(0)])
            said: Any = await client.messages.create(messages=[HI], stream=is_streamed, **ASKED)
            if is_streamed:
                assert [event async for event in said]
            return report_of(client)

    report = run_in_virtual_time(main)
    # Of a stream it is known that the draft was right, and the next turn begins behind the result.
    assert (report.total.claims, report.total.wasted) == ((1, 0) if is_streamed else (0, 1))
    assert len(report.turns) == 1 + is_streamed
