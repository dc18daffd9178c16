"""Calls whose arguments are the empty string or null, as some servers write those without arguments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.adapters.openai import arun_tool, report_of, run_tool, speculate
from agentrt.errors import InvalidRequestError
from agentrt.reports import Recording
from agentrt.speculators import EndpointSpeculator, PatternSpeculator
from agentrt.testing import ScriptedSpeculator
from tests.adapters.recording_server import RecordingServer, recording_server

pytestmark = pytest.mark.usefixtures("prediction_is_free")

FUNCTION = {"name": "now", "parameters": {"type": "object"}}
CHAT: Any = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"type": "function", "function": FUNCTION}],
}
RESPONSES: Any = {"model": "m", "input": "Hi", "tools": [{"type": "function", "strict": False, **FUNCTION}]}
EMPTY: Any = ["", None]


@speculable
def now() -> str:
    return "noon"


def serving(arguments: Any) -> Any:
    return recording_server(calls=lambda body: [("now", arguments, "call_1")])


def made(client: Any, server: RecordingServer, body: Any) -> Any:
    """The call in an answer that is not streamed."""
    if "input" in body:
        return client.responses.create(**body).output[0]
    return client.chat.completions.create(**body).choices[0].message.tool_calls[0]


@pytest.mark.parametrize("body", [CHAT, RESPONSES])
@pytest.mark.parametrize("arguments", EMPTY)
def test_the_openai_client_runs_the_tool(arguments: Any, body: Any) -> None:
    with (
        serving(arguments) as server,
        speculate(server.client(), ScriptedSpeculator(), tools=[now]) as client,
    ):
        call = made(client, server, body)
        assert (call.function if body is CHAT else call).arguments == arguments
        assert run_tool(client, call) == asyncio.run(arun_tool(client, call)) == "noon"
        (reported,) = report_of(client).turns[0].calls  # the answer was read with this call, too
        assert (reported.tool, reported.reason) == ("now", "not predicted")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("now", "[]", "not a JSON object"),
        ("now", "{not json", "cannot be read"),
        ("other", "{}", "no speculable tool 'other'"),
    ],
)
def test_other_calls_are_still_refused(name: str, arguments: str, message: str) -> None:
    with (
        recording_server(calls=lambda body: [(name, arguments, "call_1")]) as server,
        speculate(server.client(), ScriptedSpeculator(), tools=[now]) as client,
    ):
        call = made(client, server, CHAT)
        with pytest.raises(InvalidRequestError, match=message):
            run_tool(client, call)


@pytest.mark.parametrize("arguments", EMPTY)
def test_an_endpoint_drafts_the_call(arguments: Any) -> None:
    async def drafts(url: str) -> list[ToolCall]:
        predictor = EndpointSpeculator("draft", base_url=url, api_key="none")
        request = DraftRequest(CHAT["messages"], CHAT["tools"], 1)
        try:
            return [ToolCall(call.name, call.arguments) async for call in predictor.drafts(request)]
        finally:
            await predictor.aclose()

    with serving(arguments) as server:
        assert asyncio.run(drafts(server.url)) == [ToolCall("now", {})]


@pytest.mark.parametrize("arguments", EMPTY)
def test_histories_have_the_call(arguments: Any) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": arguments}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    history = [*CHAT["messages"], answer, {"role": "tool", "tool_call_id": "call_1", "content": "noon"}]
    (turn,) = Recording.of_history(history).turns
    assert [(each.name, each.arguments) for each in turn.calls] == [("now", {})]

    async def model(messages: Any, tools: Any) -> Any:
        return answer

    async def main() -> str:
        async with SpeculationSession([now], PatternSpeculator()) as session:
            await session.ask(model, CHAT["messages"], [])
            return str(await session.acall(ToolCall("now", {}, "call_1")))

    assert asyncio.run(main()) == "noon"
