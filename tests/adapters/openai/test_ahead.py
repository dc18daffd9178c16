"""Turn-ahead on the OpenAI client: every way to ask, kept only for an equal request."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from agentrt import SpeculationConfig, run_scope
from agentrt.adapters import openai as openai_adapter
from agentrt.adapters.openai import arun_tool, report_of, speculate
from agentrt.config import TurnAhead
from agentrt.testing import mock_endpoint, run_in_virtual_time
from tests.adapters.doubles import Oracle
from tests.adapters.openai.doubles import TOOLS, URL, Endpoint, async_client
from tests.adapters.openai.loops import (
    chat_create,
    chat_loop,
    chat_streamed,
    responses_create,
    responses_loop,
)
from tests.adapters.stainless.doubles import AHEAD, HI, THREE, TIMES, look_tool, timed

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


@asynccontextmanager
async def speculating(
    endpoint: Endpoint,
    *,
    answer: Callable[..., Any] | None = None,
    max_retries: int = 0,
) -> AsyncIterator[AsyncOpenAI]:
    """A client with a request ahead of each turn, which ``endpoint`` answers, or ``answer``."""
    async with async_client(answer or endpoint.aanswer, max_retries=max_retries) as plain:
        oracle = Oracle(THREE, delay=TIMES.draft)
        yield speculate(plain, oracle, tools=[look_tool(TIMES.tool)], config=AHEAD)


def test_a_response_that_continues_an_unfinished_one_is_not_requested_ahead() -> None:
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1))
    loop = functools.partial(responses_loop, ask=responses_create, stateful=True)
    plain, _, _ = timed(openai_adapter, Endpoint(THREE), loop, None)
    said, _, client = timed(openai_adapter, Endpoint(THREE, delay=TIMES.generation), loop, [], config)
    assert said == plain
    report = report_of(client)
    assert report.ahead.kept == 0
    assert report.ahead.wasted == 1  # of the first request nothing says how the second will look


@pytest.mark.parametrize("ask", [chat_create, chat_streamed])
@pytest.mark.parametrize("wrong", [[0], [1], [0, 2], [0, 1, 2]])
def test_a_wrong_draft_costs_a_request_and_changes_nothing(ask: Callable[..., Any], wrong: list[int]) -> None:
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1, max_wasted=50))
    loop = functools.partial(chat_loop, ask=ask)
    plain, _, _ = timed(openai_adapter, Endpoint(THREE), loop, None)
    said, _, client = timed(openai_adapter, Endpoint(THREE, delay=TIMES.generation), loop, wrong, config)
    assert said == plain
    ahead = report_of(client).ahead
    assert (ahead.kept, ahead.wasted) == (3 - len(wrong), len(wrong))


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"extra_body": {"seed": 1}},
        {"extra_headers": {"x-user": "bob"}},
        {"messages": [{"role": "system", "content": "be brief"}]},
        {"client": {"api_key": "another"}},
        {"client": {"base_url": "http://other/v1"}},
    ],
)
def test_a_request_that_differs_in_anything_is_made(change: dict[str, Any]) -> None:
    async def main() -> tuple[int, int]:
        endpoint = Endpoint(THREE, delay=TIMES.generation)
        async with speculating(endpoint) as client:
            history: list[Any] = [HI]
            message = await chat_create(client, history)
            call = message.tool_calls[0]
            output = await arun_tool(client, call)
            history.append(message.model_dump(exclude_none=True))
            history.append({"role": "tool", "tool_call_id": call.id, "content": output})
            options = dict(change)
            history += options.pop("messages", [])
            asking = client.with_options(**options.pop("client", {}))
            await asking.chat.completions.create(model="m", messages=history, tools=TOOLS, **options)  # type: ignore[call-overload]
            return report_of(client).ahead.kept, len(endpoint.requests)

    kept, asked = run_in_virtual_time(main)
    assert kept == 0
    assert asked >= 3


def test_leaving_a_kept_stream_stops_its_request() -> None:
    opened: list[int] = []
    closed: list[int] = []

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            chunk = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}], "id": "x"}'
            opened.append(1)
            try:
                while True:
                    await asyncio.sleep(1)
                    yield chunk + b"\n\n"
            finally:
                closed.append(1)

    endpoint = Endpoint(THREE, delay=TIMES.generation)

    async def answer(request: httpx.Request) -> httpx.Response:
        if endpoint.requests:
            headers = {"content-type": "text/event-stream"}
            return httpx.Response(200, stream=Slow(), headers=headers)
        return await endpoint.aanswer(request)

    async def main() -> int:
        async with speculating(endpoint, answer=answer) as client:
            message = await chat_streamed(client, [HI])
            call = message.tool_calls[0]
            told = {"role": "tool", "tool_call_id": call.id, "content": await arun_tool(client, call)}
            history: Any = [HI, message.model_dump(exclude_none=True), told]
            stream: Any = await client.chat.completions.create(
                model="m",
                messages=history,
                tools=TOOLS,  # type: ignore[arg-type]
                stream=True,
            )
            async for _ in stream:
                break
            await stream._iterator.aclose()
            await asyncio.sleep(2)
            assert closed == opened  # before the event loop ends, which closes generators as well
            return report_of(client).ahead.kept

    assert run_in_virtual_time(main) == 1
    assert closed == opened
    assert closed


def test_runs_that_are_named_keep_what_was_made_ahead_for_them() -> None:
    async def user(client: AsyncOpenAI, name: str) -> None:
        with run_scope(name):
            await chat_loop(client, chat_create, arun_tool)

    async def main() -> int:
        endpoint = Endpoint(THREE, delay=TIMES.generation)
        async with speculating(endpoint) as client:
            await asyncio.gather(user(client, "ann"), user(client, "bob"))
            return report_of(client).ahead.kept

    assert run_in_virtual_time(main) == 6


def test_a_history_that_no_endpoint_takes_is_for_the_endpoint_to_refuse() -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=URL, api_key="none") as plain:
            client = speculate(plain, Oracle(THREE, delay=TIMES.draft), tools=[look_tool(1)], config=AHEAD)
            for wrong in ([{"role": "assistant", "tool_calls": [7]}], [7]):
                options: Any = {"model": "m", "messages": wrong, "tools": TOOLS}
                with pytest.raises(openai.BadRequestError):
                    await client.chat.completions.create(**options)

    with mock_endpoint(URL) as endpoint:
        endpoint.post("/chat/completions").respond(400)
        run_in_virtual_time(main)
