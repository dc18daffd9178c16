"""`speculate` on the OpenAI client: every way to ask, same transcript, speculated tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from agentrt import ToolCall, run_scope, speculable
from agentrt.adapters.openai import arun_tool, report_of, run_tool, speculate
from agentrt.calls import CallArgumentsDelta, CallStarted
from agentrt.drafts import DraftRequest
from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.perfmodel import TurnTimes
from agentrt.testing import ScriptedSpeculator, mock_endpoint, run_in_virtual_time
from tests.adapters.doubles import Milestones
from tests.adapters.openai.doubles import TOOLS, URL, Endpoint
from tests.adapters.openai.loops import (
    CHAT,
    RESPONSES,
    chat_create,
    chat_loop,
    chat_streamed,
    plainly,
    responses_create,
    responses_loop,
    responses_streamed,
    sync_results,
)
from tests.adapters.stainless.doubles import HI, Script, look_tool

THREE: Script = [[("look", {"q": f"q{turn}"})] for turn in range(3)]


pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


TIMES = TurnTimes(generation=40, draft=5, tool=30)


def measure(loop: Callable[..., Any], wrong: frozenset[int]) -> None:
    """Run a loop with and without speculation: same transcript, in the time that Eq. 1 says."""

    def drafts_of(turn: int) -> list[ToolCall]:
        return [ToolCall("look", {"q": f"q{turn}" + "x" * (turn in wrong), "limit": 3})]

    async def main(speculative: bool) -> tuple[list[Any], float]:
        run: Any = plainly
        async with Endpoint(THREE, delay=TIMES.generation).async_client() as client:
            if speculative:
                predictor = ScriptedSpeculator(*map(drafts_of, range(3)), delay=TIMES.draft)
                client, run = speculate(client, predictor, tools=[look_tool(TIMES.tool, [])]), arun_tool
                assert type(client).__name__ == "AsyncOpenAI"
            return await loop(client, run), asyncio.get_running_loop().time()

    plain, plain_seconds = run_in_virtual_time(lambda: main(False))
    fast, seconds = run_in_virtual_time(lambda: main(True))
    assert fast == plain
    assert plain_seconds == TIMES.standard(3) + TIMES.generation
    assert seconds == pytest.approx(TIMES.speculative(1 - len(wrong) / 3, 3) + TIMES.generation)


@pytest.mark.parametrize("ask", CHAT)
@pytest.mark.parametrize("wrong", [frozenset(), frozenset({1}), frozenset({0, 1, 2})])
def test_a_chat_loop_takes_what_equation_1_says(ask: Callable[..., Any], wrong: frozenset[int]) -> None:
    measure(lambda client, run: chat_loop(client, ask, run), wrong)


@pytest.mark.parametrize("ask", RESPONSES)
@pytest.mark.parametrize("stateful", [False, True])
def test_a_responses_loop_takes_what_equation_1_says(ask: Callable[..., Any], stateful: bool) -> None:
    measure(lambda client, run: responses_loop(client, ask, run, stateful), frozenset({1}))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_sync_loop_runs_its_tools_while_the_model_answers(api: str, streamed: bool) -> None:
    milestones, runs = Milestones(), list[str]()

    @speculable
    def look(q: str, limit: int = 3) -> str:
        runs.append(q)
        milestones.reach(f"started {q}")
        return f"found {q} {limit}"

    def gate(turn: int) -> None:  # the model answers only once the predicted tool has started
        if turn < 3:
            milestones.wait(f"started q{turn}")

    predictor = ScriptedSpeculator(*([ToolCall(name, args) for name, args in calls] for calls in THREE))
    with Endpoint(THREE, gate=gate).client() as plain:
        client = speculate(plain, predictor, tools=[look])
        assert isinstance(client, OpenAI)
        results = sync_results(client, api, streamed, 4)
    assert results == ["found q0 3", "found q1 3", "found q2 3"]
    assert report_of(client).total.misses == 0


def test_predictors_see_the_request_and_the_stream_in_one_shape() -> None:
    class Reader:
        def __init__(self) -> None:
            self.requests: list[DraftRequest] = []
            self.read: list[Any] = []

        async def drafts(self, request: DraftRequest) -> Any:
            self.requests.append(request)
            async for event in request.answer.events():
                self.read.append(event)
                if isinstance(event, CallArgumentsDelta) and event.text.endswith("}"):
                    yield ToolCall("look", {"q": "q0"})

    def read(ask: Callable[..., Any]) -> Reader:
        reader = Reader()

        async def main() -> None:
            async with Endpoint(THREE[:1], delay=1).async_client() as plain:
                client = speculate(plain, reader, tools=[look_tool(1, [])])
                if ask is chat_streamed:
                    await chat_loop(client, ask, arun_tool)
                else:
                    await responses_loop(client, ask, arun_tool, True)

        run_in_virtual_time(main)
        return reader

    chat, responses = read(chat_streamed), read(responses_streamed)
    expected = [CallStarted(0, "look"), CallArgumentsDelta(0, '{"q"'), CallArgumentsDelta(0, ': "q0"}')]
    assert chat.read[:3] == responses.read[:3] == expected
    for asked in (chat, responses):
        function = {"name": "look", "parameters": {"type": "object"}}
        assert asked.requests[1].tools == [{"type": "function", "function": function}]
    calls = [{"id": "id_0_0", "type": "function", "function": {"name": "look", "arguments": '{"q": "q0"}'}}]
    result = {"role": "tool", "tool_call_id": "id_0_0", "content": "found q0 3"}
    assert chat.requests[1].messages == [HI, {"role": "assistant", "tool_calls": calls}, result]
    asked_again = responses.requests[1].messages
    assert asked_again == [HI, {"role": "assistant", "content": None, "tool_calls": calls}, result]


def test_instructions_are_what_the_system_says() -> None:
    predictor = ScriptedSpeculator()

    async def main() -> None:
        async with Endpoint([], delay=1).async_client() as plain:
            client = speculate(plain, predictor, tools=[look_tool(1, [])])
            await responses_create(client, input="hi", instructions="be brief")

    run_in_virtual_time(main)
    assert predictor.requests[0].messages == [{"role": "system", "content": "be brief"}, HI]


def test_nothing_is_predicted_where_no_tool_can_be_called() -> None:
    predictor = ScriptedSpeculator()

    async def main() -> None:
        async with Endpoint([]).async_client() as plain:
            client = speculate(plain, predictor, tools=[look_tool(1, [])])
            options: Any = {"model": "m", "messages": [HI]}
            await client.chat.completions.create(**options)
            await client.chat.completions.create(**options, tools=TOOLS, tool_choice="none")
            assert report_of(client).turns == ()

    asyncio.run(main())
    assert predictor.requests == []


@asynccontextmanager
async def answered(status: int, content: bytes, kind: str = "application/json") -> AsyncIterator[AsyncOpenAI]:
    """A client whose chat completions are all answered by ``content``."""
    with mock_endpoint(URL) as endpoint:
        endpoint.post("/chat/completions").respond(status, content=content, content_type=kind)
        async with AsyncOpenAI(base_url=URL, api_key="none", max_retries=0) as client:
            yield client


@pytest.mark.parametrize("status", [401, 429, 500])
def test_the_errors_of_the_endpoint_are_the_users_and_discard_the_turn(status: int) -> None:
    async def main() -> Any:
        async with answered(status, b"{}") as plain:
            client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1, [])])
            with pytest.raises(openai.APIStatusError):
                await chat_create(client, [HI])
            return report_of(client).turns[0]

    assert run_in_virtual_time(main).generation_s is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": "x"}',
        b'{"choices": []}',
        b'{"choices": [{"message": {"tool_calls": [{"id": 1}]}}]}',
        b'{"choices": [{"message": {"tool_calls": [{"id": "1", "type": "function",'
        b' "function": {"name": "look", "arguments": "{\\"q\\": NaN}"}}]}}]}',
        b'{"choices": 7}',
    ],
)
def test_what_is_wrong_with_an_answer_is_for_the_user_to_meet(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> Any:
        async with answered(200, body) as plain:
            client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1, [])])
            options: Any = {"model": "m", "messages": [HI], "tools": TOOLS}
            return (await client.chat.completions.create(**options)), (
                await plain.chat.completions.create(**options)
            )

    with caplog.at_level(logging.WARNING):
        speculated, plain = asyncio.run(main())
    assert repr(speculated) == repr(plain)


def test_a_stream_that_breaks_off_or_is_left_discards_its_speculations() -> None:
    chunk = (
        b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}], "object": "chat.completion.chunk"}\n\n'
    )

    async def main() -> Any:
        broken = chunk + b'data: {"error": {"message": "x"}}\n\n'
        async with answered(200, broken, "text/event-stream") as plain:
            client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1, [])])
            options: Any = {"model": "m", "messages": [HI], "tools": TOOLS, "stream": True}
            with pytest.raises(openai.APIError):
                async for _ in await client.chat.completions.create(**options):
                    pass
            unread = await client.chat.completions.create(**options)
            await unread.close()
            return client

    assert [turn.generation_s for turn in report_of(asyncio.run(main())).turns] == [None, None]


def test_equal_ids_of_different_runs_meet_only_if_the_runs_are_named() -> None:
    runs: list[str] = []

    async def user(client: AsyncOpenAI, name: str) -> None:
        with run_scope(name):
            message = await chat_create(client, [HI])
            await asyncio.sleep(10)
            assert await arun_tool(client, message.tool_calls[0]) == "found q0 3"

    async def main() -> Any:
        draft = [ToolCall("look", {"q": "q0"})]
        predictor = ScriptedSpeculator(draft, draft)
        async with Endpoint(THREE, delay=5).async_client() as plain:
            client = speculate(plain, predictor, tools=[look_tool(3, runs)])
            await asyncio.gather(user(client, "ann"), user(client, "bob"))
            return report_of(client).total.claims

    assert run_in_virtual_time(main) == 2


@pytest.mark.parametrize("repeated", [True, False], ids=["ids repeat", "no ids"])
def test_two_conversations_in_one_context_do_not_get_each_others_results(repeated: bool) -> None:
    asked: list[str] = []

    @speculable
    async def look(q: str) -> str:
        return f"found for {asked[-1]}"

    async def main() -> Any:
        draft = [ToolCall("look", {"q": "q0"})]
        async with Endpoint(THREE, delay=5).async_client() as plain:
            client = speculate(plain, ScriptedSpeculator(draft, draft), tools=[look])
            calls = {}
            for name in ("ann", "bob"):
                asked.append(name)
                calls[name] = (await chat_create(client, [HI])).tool_calls[0]
            for name, call in calls.items():
                asked.append(name)
                result = arun_tool(client, call) if repeated else look(q="q0")
                assert await result == f"found for {name}"
            return report_of(client).total

    total = run_in_virtual_time(main)
    assert (total.claims, total.misses, total.calls) == (0, 2, 2)


def test_wrong_use_raises() -> None:
    client = OpenAI(base_url=URL, api_key="none")
    look = look_tool(1, [])
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        speculate(client, [], tools=[look])
    with pytest.raises(ConfigurationError, match="a predictor"):
        speculate(client, [None], tools=[look])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="@speculable"):
        speculate(client, ScriptedSpeculator(), tools=[print])
    with pytest.raises(ConfigurationError, match="speculate"):
        report_of(client)
    fast = speculate(client, ScriptedSpeculator(), tools=[look])
    again = speculate(fast, ScriptedSpeculator(), tools=[look])
    assert type(again) is type(fast)
    call = chat_message("look", "{not json")
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        run_tool(fast, call)
    with pytest.raises(InvalidRequestError, match="no speculable tool 'other'"):
        run_tool(fast, chat_message("other", "{}"))


def chat_message(name: str, arguments: str) -> Any:
    return openai.types.chat.ChatCompletionMessageFunctionToolCall.model_validate(
        {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    )
