"""`speculate` on the Anthropic client: what it sends, and what it makes of answers."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import Anthropic

from agentrt import Priority, ToolCall, priority, speculable
from agentrt.adapters.anthropic import report_of, run_tool, speculate
from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.anthropic.doubles import ASKED, TOOLS, URL, Endpoint, create
from tests.adapters.doubles import Oracle
from tests.adapters.stainless.doubles import HI, THREE, answered_by, look_tool
from tests.patience import until

pytestmark = pytest.mark.usefixtures("no_thread_at_the_first_request", "prediction_is_free")


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
    with pytest.raises(ConfigurationError, match="an Anthropic or AsyncAnthropic client"):
        speculate(object(), ScriptedSpeculator(), tools=[look])  # type: ignore[type-var]
    fast = speculate(client, ScriptedSpeculator(), tools=[look])
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
