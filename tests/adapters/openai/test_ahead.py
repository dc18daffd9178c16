"""Turn-ahead on the OpenAI client: every way to ask, kept only for an equal request."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from agentrt import SpeculationConfig, SpeculationReport, run_scope, speculable
from agentrt.adapters.openai import arun_tool, report_of, speculate
from agentrt.config import TurnAhead
from agentrt.perfmodel import TurnTimes
from agentrt.testing import mock_endpoint, run_in_virtual_time
from tests.adapters.doubles import Milestones, Oracle
from tests.adapters.openai.doubles import TOOLS, URL, Endpoint, async_client
from tests.adapters.openai.loops import (
    CHAT,
    RESPONSES,
    chat_create,
    chat_loop,
    chat_streamed,
    plainly,
    responses_create,
    responses_loop,
    sync_results,
)
from tests.adapters.stainless.doubles import HI, Script, look_tool

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")

TURNS = 4
SCRIPT: Script = [[("look", {"q": f"q{turn}"})] for turn in range(TURNS)]
TIMES = TurnTimes(generation=40, draft=1, tool=9)
ON = SpeculationConfig(turn_ahead=TurnAhead(depth=TURNS))


def oracle(wrong: Sequence[int] = (), draft: float = TIMES.draft) -> Oracle:
    return Oracle(SCRIPT, wrong, delay=draft)


@asynccontextmanager
async def speculating(
    endpoint: Endpoint,
    wrong: Sequence[int] = (),
    config: SpeculationConfig = ON,
    *,
    answer: Callable[..., Any] | None = None,
    max_retries: int = 0,
) -> AsyncIterator[AsyncOpenAI]:
    """A client with a request ahead of each turn, which ``endpoint`` answers, or ``answer``."""
    async with async_client(answer or endpoint.aanswer, max_retries=max_retries) as plain:
        yield speculate(plain, oracle(wrong), tools=[look_tool(TIMES.tool, [])], config=config)


def measure(
    loop: Callable[..., Any], wrong: Sequence[int] = (), config: SpeculationConfig = ON
) -> tuple[float, SpeculationReport, Endpoint]:
    """Run a loop with and without: the same transcript; return the time with, the report, the endpoint."""

    async def plain() -> Any:
        async with Endpoint(SCRIPT, delay=TIMES.generation).async_client() as client:
            return await loop(client, plainly)

    async def fast() -> tuple[Any, float, SpeculationReport, Endpoint]:
        endpoint = Endpoint(SCRIPT, delay=TIMES.generation)
        async with speculating(endpoint, wrong, config) as client:
            said = await loop(client, arun_tool)
            return said, asyncio.get_running_loop().time(), report_of(client), endpoint

    said, seconds, report, endpoint = run_in_virtual_time(fast)
    assert said == run_in_virtual_time(plain)
    return seconds, report, endpoint


AHEAD_S = TURNS * (TIMES.draft + TIMES.tool) + TIMES.generation


LOOPS = [
    *(functools.partial(chat_loop, ask=ask) for ask in CHAT),
    *(functools.partial(responses_loop, ask=ask, stateful=False) for ask in RESPONSES),
]


@pytest.mark.parametrize("loop", LOOPS, ids=[ask.__name__ for ask in [*CHAT, *RESPONSES]])
def test_a_loop_that_sends_its_history_says_the_same_sooner(loop: Callable[..., Any]) -> None:
    seconds, report, endpoint = measure(lambda client, run: loop(client, run=run))
    assert seconds == AHEAD_S
    assert (report.ahead.kept, report.ahead.wasted) == (TURNS, 0)
    assert len(endpoint.requests) == TURNS + 1


def test_a_response_that_continues_an_unfinished_one_is_not_requested_ahead() -> None:
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1))
    _, report, _ = measure(
        lambda client, run: responses_loop(client, responses_create, run, True), (), config
    )
    assert report.ahead.kept == 0
    assert report.ahead.wasted == 1  # of the first request nothing says how the second will look


@pytest.mark.parametrize("ask", [chat_create, chat_streamed])
@pytest.mark.parametrize("wrong", [[0], [1, 3], list(range(TURNS))])
def test_a_wrong_draft_costs_a_request_and_changes_nothing(ask: Callable[..., Any], wrong: list[int]) -> None:
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1, max_wasted=50))
    _, report, _ = measure(lambda client, run: chat_loop(client, ask, run), wrong, config)
    assert (report.ahead.kept, report.ahead.wasted) == (TURNS - len(wrong), len(wrong))


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
        endpoint = Endpoint(SCRIPT, delay=TIMES.generation)
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


def test_an_error_of_a_request_sent_ahead_is_not_raised_and_the_request_is_sent_when_due() -> None:
    endpoint = Endpoint(SCRIPT, delay=TIMES.generation)
    failed: list[int] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        if len(endpoint.requests) == 1 and not failed:
            failed.append(1)
            return httpx.Response(503, json={"error": {"message": "x"}})
        return await endpoint.aanswer(request)

    async def main() -> list[Any]:
        async with speculating(endpoint, answer=answer, max_retries=5) as client:
            return await chat_loop(client, chat_create, arun_tool)

    assert run_in_virtual_time(main)[-1]["content"] == "done"
    assert failed == [1]


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

    endpoint = Endpoint(SCRIPT, delay=TIMES.generation)

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
        endpoint = Endpoint(SCRIPT, delay=TIMES.generation)
        async with speculating(endpoint) as client:
            await asyncio.gather(user(client, "ann"), user(client, "bob"))
            return report_of(client).ahead.kept

    assert run_in_virtual_time(main) == 2 * TURNS


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_sync_loop_is_answered_ahead(api: str, streamed: bool) -> None:
    milestones = Milestones()

    @speculable
    def look(q: str) -> str:
        return f"found {q}"

    def gate(turn: int) -> None:  # no turn is answered before the next one has been asked for
        milestones.reach(f"asked {turn}")
        if turn < TURNS:
            milestones.wait(f"asked {turn + 1}")

    endpoint = Endpoint(SCRIPT, gate=gate)
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=1))
    with endpoint.client() as plain:
        client = speculate(plain, oracle(draft=0), tools=[look], config=config)
        results = sync_results(client, api, streamed, TURNS + 1)
    assert results == [f"found q{turn}" for turn in range(TURNS)]
    assert report_of(client).ahead.kept == TURNS
    assert len(endpoint.requests) == TURNS + 1


def test_a_history_that_no_endpoint_takes_is_for_the_endpoint_to_refuse() -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=URL, api_key="none") as plain:
            client = speculate(plain, oracle(), tools=[look_tool(1, [])], config=ON)
            for wrong in ([{"role": "assistant", "tool_calls": [7]}], [7]):
                options: Any = {"model": "m", "messages": wrong, "tools": TOOLS}
                with pytest.raises(openai.BadRequestError):
                    await client.chat.completions.create(**options)

    with mock_endpoint(URL) as endpoint:
        endpoint.post("/chat/completions").respond(400)
        run_in_virtual_time(main)
