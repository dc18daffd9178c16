"""`speculate` on the Anthropic client: every way to ask, same transcript, speculated tools."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import Anthropic, AsyncAnthropic

from agentrt import Priority, SpeculationConfig, ToolCall, priority, run_scope, speculable
from agentrt.adapters.anthropic import arun_tool, report_of, run_tool, speculate
from agentrt.calls import CallArgumentsDelta, CallStarted
from agentrt.config import TurnAhead
from agentrt.drafts import DraftRequest
from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.anthropic.doubles import (
    ASKED,
    THREE,
    TIMES,
    TOOLS,
    URL,
    WAYS,
    Endpoint,
    async_client,
    create,
    loop,
    message,
    sent,
    sync_results,
    timed,
)
from tests.adapters.doubles import Milestones, Oracle
from tests.adapters.stainless.doubles import HI, STREAM, answered_by, look_tool
from tests.patience import until

AHEAD = SpeculationConfig(turn_ahead=TurnAhead(depth=3))

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize("wrong", [[], [1], [0, 1, 2]], ids=["all right", "one wrong", "all wrong"])
def test_a_loop_takes_what_equation_1_says(ask: Callable[..., Any], wrong: list[int]) -> None:
    plain, plain_seconds, _ = timed(ask, None)
    fast, seconds, _ = timed(ask, wrong)
    assert fast == plain
    assert plain_seconds == TIMES.standard(3) + TIMES.generation
    assert seconds == pytest.approx(TIMES.speculative(1 - len(wrong) / 3, 3) + TIMES.generation)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_sync_loop_runs_its_tools_while_the_model_answers(is_streamed: bool) -> None:
    milestones = Milestones()

    @speculable
    def look(q: str, limit: int = 3) -> str:
        milestones.reach(f"started {q}")
        return f"found {q} {limit}"

    def gate(turn: int) -> None:  # the model answers only once the predicted tool has started
        if turn < 3:
            milestones.wait(f"started q{turn}")

    with Endpoint(THREE, gate=gate).client() as plain:
        client = speculate(plain, Oracle(THREE, delay=0), tools=[look], config=AHEAD)
        assert isinstance(client, Anthropic)
        results = sync_results(client, is_streamed, 4)
    assert results == ["found q0 3", "found q1 3", "found q2 3"]
    assert report_of(client).total.misses == 0


def test_predictors_see_the_request_and_the_stream_as_of_chat_completions() -> None:
    class Reader:
        def __init__(self) -> None:
            self.requests: list[DraftRequest] = []
            self.read: list[Any] = []

        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            self.requests.append(request)
            async for event in request.answer.events():
                self.read.append(event)
                if isinstance(event, CallArgumentsDelta) and event.text.endswith("}"):
                    yield ToolCall("look", {"q": "q0"})

    reader = Reader()

    async def main() -> None:
        async with Endpoint(THREE[:1], delay=1).async_client() as plain:
            client = speculate(plain, reader, tools=[look_tool(1)])

            async def ask(client: Any, history: list[Any]) -> Any:
                system = [{"type": "text", "text": "be brief"}]
                async with client.messages.stream(messages=history, system=system, **ASKED) as stream:
                    return (await stream.get_final_message()).content

            await loop(client, ask, arun_tool)

    run_in_virtual_time(main)
    call = [CallStarted(0, "look"), CallArgumentsDelta(0, '{"q"'), CallArgumentsDelta(0, ': "q0"}')]
    assert reader.read[:3] == call
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    assert reader.requests[1].tools == [{"type": "function", "function": function}]
    calls = [{"id": "id_0_0", "type": "function", "function": {"name": "look", "arguments": '{"q": "q0"}'}}]
    assert reader.requests[1].messages == [
        {"role": "system", "content": "be brief"},
        HI,
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "id_0_0", "content": "found q0 3"},
    ]


@pytest.mark.parametrize("change", [{"tools": []}, {"tool_choice": {"type": "none"}}])
def test_nothing_is_predicted_where_no_tool_can_be_called(change: dict[str, Any]) -> None:
    predictor = ScriptedSpeculator()
    with Endpoint([]).client() as plain:
        client = speculate(plain, predictor, tools=[look_tool(1)])
        client.messages.create(messages=[HI], **{**ASKED, **change})
        client.messages.count_tokens  # noqa: B018 - another path
        assert report_of(client).turns == ()
    assert predictor.requests == []


def test_a_tool_that_the_request_does_not_offer_is_not_run() -> None:
    runs: list[str] = []

    @speculable
    def look(q: str) -> str:
        runs.append(q)
        return q

    async def main() -> None:
        other = {"name": "other", "input_schema": {"type": "object"}}
        async with Endpoint([], delay=5).async_client() as plain:
            client = speculate(plain, ScriptedSpeculator([ToolCall("look", {"q": "q0"})]), tools=[look])
            await client.messages.create(messages=[HI], **{**ASKED, "tools": [other]})
            assert len(report_of(client).turns) == 1

    run_in_virtual_time(main)
    assert runs == []


def test_what_is_given_as_an_iterator_is_sent_whole() -> None:
    predictor = ScriptedSpeculator()
    endpoint = Endpoint([], gate=lambda turn: until(lambda: predictor.requests))
    with endpoint.client() as plain:
        client = speculate(plain, predictor, tools=[look_tool(1)])
        given = {**ASKED, "tools": iter(TOOLS)}
        client.messages.create(messages=iter([HI]), **given)
        assert len(report_of(client).turns) == 1
    assert (endpoint.requests[0]["messages"], endpoint.requests[0]["tools"]) == ([HI], TOOLS)
    assert [len(predictor.requests[0].messages), len(predictor.requests[0].tools)] == [1, 1]


def answered(status: int, content: bytes, kind: str) -> AbstractAsyncContextManager[AsyncAnthropic]:
    """A client whose requests are all answered by ``content``."""
    headers = {"content-type": kind}
    return async_client(lambda request: httpx.Response(status, content=content, headers=headers))


STARTED = sent([{"type": "message_start", "message": message([])}])


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (401, b"{}", "application/json"),
        (500, b"no JSON", "text/plain"),
        (200, b"{}", "application/json"),
        (200, b'{"type": "message"}', "application/json"),
        (200, b'{"type": "message", "content": [{"type": "tool_use"}]}', "application/json"),
        (200, b'{"type": "message", "content": [{"type": "tool_use", "id": 1, "name": "look", "input": 3}]}',
         "application/json"),
        (200, b"", STREAM),
        (200, STARTED.encode(), STREAM),
        (200, STARTED.encode() + b'event: error\ndata: {"error": {"message": "x"}}\n\n', STREAM),
        (200, b'event: content_block_start\ndata: {"type": "content_block_start"}\n\n', STREAM),
        (200, b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 3}\n\n', STREAM),
    ],
)  # fmt: skip
def test_whatever_comes_is_what_the_plain_client_makes_of_it(status: int, content: bytes, kind: str) -> None:
    async def outcome(client: AsyncAnthropic) -> str:
        try:
            answer: Any = await client.messages.create(messages=[HI], stream=kind == STREAM, **ASKED)
            return repr([event async for event in answer] if kind == STREAM else answer)
        except Exception as error:  # noqa: BLE001 - compared
            return repr(error)

    async def main() -> tuple[str, str]:
        async with answered(status, content, kind) as plain:
            client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1)])
            return await outcome(client), await outcome(plain)

    speculated, plain = asyncio.run(main())
    assert speculated == plain


@pytest.mark.parametrize(
    "messages", [[], [{}], [{"role": "user"}], "hi", [{"role": "user", "content": [{}]}]]
)
def test_a_request_that_nobody_understands_is_sent_as_it_is(messages: Any) -> None:
    seen: list[Any] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content)["messages"])
        return httpx.Response(400, json={"type": "error", "error": {"type": "invalid_request_error"}})

    with answered_by(refuse), Anthropic(base_url=URL, api_key="none", max_retries=0) as plain:
        client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1)])
        for each in (client, plain):
            with pytest.raises(anthropic.BadRequestError):
                each.messages.create(messages=messages, **ASKED)
    assert seen[0] == seen[1]


def test_a_stream_that_breaks_off_or_is_left_discards_its_speculations() -> None:
    async def main() -> Any:
        broken = STARTED.encode() + b'event: error\ndata: {"error": {"message": "x"}}\n\n'
        async with answered(200, broken, STREAM) as plain:
            client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1)])
            with pytest.raises(anthropic.APIStatusError):
                async for _ in await client.messages.create(messages=[HI], stream=True, **ASKED):
                    pass
            unread = await client.messages.create(messages=[HI], stream=True, **ASKED)
            await unread.close()
            return client

    assert [turn.generation_s for turn in report_of(asyncio.run(main())).turns] == [None, None]


def test_a_response_that_the_user_reads_is_left_alone() -> None:
    with Endpoint(THREE).client() as plain:
        client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1)])
        with client.messages.with_streaming_response.create(messages=[HI], **ASKED) as response:
            assert not response.http_response.is_stream_consumed
            assert json.loads(response.read())["content"][0]["name"] == "look"


def hanging_tool(stopped: list[str]) -> Any:
    @speculable
    async def look(q: str) -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            stopped.append(q)
            raise
        return q

    return look


@pytest.mark.parametrize("how", ["error", "dropped stream"])
def test_what_runs_for_an_answer_that_never_comes_is_stopped(how: str) -> None:
    stopped: list[str] = []

    async def main() -> None:
        async with Endpoint([], delay=5).async_client() as plain:
            client = speculate(plain, Oracle(THREE, delay=0), tools=[hanging_tool(stopped)])
            if how == "error":
                with pytest.raises(anthropic.BadRequestError):
                    await client.beta.messages.create(messages=[HI], thread={"type": "create"}, **ASKED)
            else:
                stream: Any = await client.messages.create(messages=[HI], stream=True, **ASKED)
                await stream.response.aclose()
                del stream
                gc.collect()
            await asyncio.sleep(1)
            assert stopped == ["q0"]

    run_in_virtual_time(main)


def test_a_call_that_was_made_otherwise_leaves_no_result_behind() -> None:
    async def main() -> Any:
        async with Endpoint(THREE[:1], delay=5).async_client() as plain:
            client = speculate(plain, Oracle(THREE, delay=0), tools=[look_tool(0)])
            (call,) = await asyncio.create_task(create(client, [HI]))  # in a context of its own
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "found elsewhere"}
            said = [HI, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
            await asyncio.create_task(create(client, said))
            return report_of(client).total

    assert run_in_virtual_time(main).unclaimed == 1


def test_two_conversations_in_one_context_do_not_get_each_others_results() -> None:
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
                calls[name] = (await create(client, [HI]))[0]
            for name, call in calls.items():
                asked.append(name)
                assert await arun_tool(client, call) == f"found for {name}"
            return report_of(client).total

    total = run_in_virtual_time(main)
    assert (total.claims, total.misses, total.calls) == (0, 2, 2)


def test_equal_ids_of_different_runs_meet_only_if_the_runs_are_named() -> None:
    async def user(client: AsyncAnthropic, name: str) -> None:
        with run_scope(name):
            (call,) = await create(client, [HI])
            await asyncio.sleep(10)
            assert await arun_tool(client, call) == "found q0 3"

    async def main() -> Any:
        draft = [ToolCall("look", {"q": "q0"})]
        async with Endpoint(THREE, delay=5).async_client() as plain:
            client = speculate(plain, ScriptedSpeculator(draft, draft), tools=[look_tool(3)])
            await asyncio.gather(user(client, "ann"), user(client, "bob"))
            return report_of(client).total.claims

    assert run_in_virtual_time(main) == 2


@pytest.mark.parametrize(
    ("dialect", "sent"), [("agentrt", int(Priority.PROACTIVE)), ("vllm", None), (None, None)]
)
def test_a_priority_is_sent_to_servers_that_take_one_in_this_form(
    dialect: str | None, sent: int | None
) -> None:
    endpoint = Endpoint([])
    with endpoint.client() as plain:
        client = speculate(plain, ScriptedSpeculator(), tools=[look_tool(1)], dialect=dialect)
        with priority(Priority.PROACTIVE):
            client.beta.messages.create(messages=[HI], **ASKED)
        client.messages.create(messages=[HI], **ASKED)
    assert [body.get("priority") for body in endpoint.requests] == [sent, None]


def test_wrong_use_raises() -> None:
    client = Anthropic(base_url=URL, api_key="none")
    look = look_tool(1)
    with pytest.raises(ConfigurationError, match="at least one predictor"):
        speculate(client, [], tools=[look])
    with pytest.raises(ConfigurationError, match="an Anthropic or AsyncAnthropic client"):
        speculate(object(), ScriptedSpeculator(), tools=[look])  # type: ignore[type-var]
    with pytest.raises(ConfigurationError, match="@speculable"):
        speculate(client, ScriptedSpeculator(), tools=[print])
    with pytest.raises(ConfigurationError, match="speculate"):
        report_of(client)
    fast = speculate(client, ScriptedSpeculator(), tools=[look])
    again = speculate(fast, ScriptedSpeculator(), tools=[look])
    assert type(again) is type(fast)
    assert type(fast.copy()) is type(fast)
    with pytest.raises(InvalidRequestError, match="whose type is tool_use"):
        run_tool(fast, {"name": "look"})

    @speculable
    def told(q: str) -> str:
        return q

    block = {"type": "tool_use", "id": "1", "name": "told", "input": {"q": "x"}}
    assert run_tool(speculate(client, ScriptedSpeculator(), tools=[told]), block) == "x"
    with pytest.raises(InvalidRequestError, match="no speculable tool 'other'"):
        run_tool(fast, anthropic.types.ToolUseBlock(id="1", type="tool_use", name="other", input={}))
