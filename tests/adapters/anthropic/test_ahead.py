"""Turn-ahead on the Anthropic client: every way to ask, kept only for an equal request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from anthropic import AsyncAnthropic

from agentrt import SpeculationConfig
from agentrt.adapters.anthropic import arun_tool, report_of, speculate
from agentrt.config import TurnAhead
from agentrt.testing import run_in_virtual_time
from tests.adapters.anthropic.doubles import (
    ASKED,
    THREE,
    TIMES,
    WAYS,
    Endpoint,
    async_client,
    create,
    loop,
    stream_helper,
    timed,
)
from tests.adapters.doubles import Oracle
from tests.adapters.stainless.doubles import HI, look_tool

AHEAD = SpeculationConfig(turn_ahead=TurnAhead(depth=3))

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


@pytest.mark.parametrize("ask", WAYS)
def test_turns_ahead_say_the_same_sooner(ask: Callable[..., Any]) -> None:
    plain, _, _ = timed(ask, None)
    fast, seconds, client = timed(ask, [], AHEAD)
    assert fast == plain
    assert seconds == 3 * (TIMES.draft + TIMES.tool) + TIMES.generation
    assert (report_of(client).ahead.kept, report_of(client).ahead.wasted) == (3, 0)


@pytest.mark.parametrize("ask", [create, stream_helper])
@pytest.mark.parametrize(
    "change", [{"stop_sequences": ["x"]}, {"system": "be brief"}, {"extra_headers": {"a": "b"}}]
)
def test_another_request_does_not_take_an_answer_requested_ahead(
    ask: Callable[..., Any], change: dict[str, Any]
) -> None:
    endpoint = Endpoint(THREE, delay=TIMES.generation)

    async def main() -> Any:
        async with endpoint.async_client() as plain:
            oracle = Oracle(THREE, delay=TIMES.draft)
            client = speculate(plain, oracle, tools=[look_tool(TIMES.tool)], config=AHEAD)
            (call,) = await ask(client, [HI])
            result = {"type": "tool_result", "tool_use_id": call.id, "content": await arun_tool(client, call)}
            history = [HI, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
            await client.messages.create(messages=history, **ASKED, **change)
            return report_of(client).ahead

    assert run_in_virtual_time(main).kept == 0
    assert endpoint.requests[-1].items() >= {k: v for k, v in change.items() if k != "extra_headers"}.items()


def test_a_response_that_the_user_reads_is_not_requested_ahead() -> None:
    async def read(client: AsyncAnthropic, history: list[Any]) -> Any:
        async with client.messages.with_streaming_response.create(messages=history, **ASKED) as response:
            return (await response.parse()).content

    _, _, client = timed(read, [], AHEAD)
    assert (report_of(client).ahead.kept, report_of(client).ahead.wasted) == (0, 0)


def test_a_request_ahead_that_fails_is_sent_again_when_it_is_due_and_not_before() -> None:
    endpoint, failed = Endpoint(THREE), list[int]()

    async def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if len(body["messages"]) == 3 and not failed:
            failed.append(3)
            return httpx.Response(500, json={})
        await asyncio.sleep(TIMES.generation)
        return endpoint.answer(request)

    async def main() -> Any:
        async with async_client(answer, max_retries=2) as plain:
            oracle = Oracle(THREE, delay=TIMES.draft)
            client = speculate(plain, oracle, tools=[look_tool(TIMES.tool)], config=AHEAD)
            await loop(client, create, arun_tool)
            return report_of(client).ahead

    assert run_in_virtual_time(main).kept < 3
    assert failed
