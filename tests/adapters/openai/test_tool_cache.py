"""Early results submitted by the official client: to `agentrt serve` over a real socket, to mocks without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseOutputItemDoneEvent

from agentrt import ToolCall, speculable
from agentrt.adapters.openai import report_of, run_tool, speculate
from agentrt.adapters.stainless.tool_cache import CAPABILITY, ToolCacheEndpoint
from agentrt.testing import ScriptedSpeculator, mock_endpoint
from agentrt.toolcache import FinishedCall
from tests.adapters.doubles import AskedAgain
from tests.runtime.serving.gateway.conftest import gateway_before
from tests.runtime.serving.http.serving import Running

pytestmark = pytest.mark.usefixtures("prediction_is_free")

URL = "http://model.test/v1"
QUESTION = "What is the weather in Oslo?"
OSLO = ToolCall("get_weather", {"city": "Oslo"})
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: Any = {"name": "get_weather", "description": "Current weather in a city.", "parameters": CITY}
CHAT: Any = {
    "model": "nano",
    "messages": [{"role": "user", "content": QUESTION}],
    "tools": [{"type": "function", "function": FUNCTION}],
    "max_tokens": 80,
    "stream": True,
}
RESPONSES: Any = {
    "model": "nano",
    "input": QUESTION,
    "tools": [{"type": "function", **FUNCTION}],
    "max_output_tokens": 80,
    "stream": True,
}


def weather_in(city: str) -> dict[str, Any]:
    return {"city": city, "temperature": 12, "sky": "rain"}


@speculable
def get_weather(city: str) -> dict[str, Any]:
    return weather_in(city)


@pytest.fixture(scope="module")
def gateway(server: Running) -> Iterator[Running]:
    """The same engine behind a gateway, which knows nothing of its own cache."""
    with gateway_before(server.url) as gateway:
        yield gateway


def read(
    server: Running, body: Any, predictor: Any, tool_cache: bool = True, tool: Any = get_weather
) -> tuple[list[Any], Any]:
    """All events of an answer for the sync client, and the client."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as plain:
        client = speculate(plain, predictor, tools=[tool], tool_cache=tool_cache)
        events = []
        for event in ask(client, body):
            events.append(event)
            if tells_a_result(event):
                assert predictor.again.wait(30)
        return events, client


def aread(server: Running, body: Any, predictor: Any, tool_cache: bool = True) -> tuple[list[Any], Any]:
    """The same for the async one."""

    async def main() -> tuple[list[Any], Any]:
        base_url = f"{server.url}/v1"
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=60) as plain:
            client = speculate(plain, predictor, tools=[get_weather], tool_cache=tool_cache)
            events = []
            async for event in await ask(client, body):
                events.append(event)
                if tells_a_result(event):
                    assert await asyncio.to_thread(predictor.again.wait, 30)
            return events, client

    return asyncio.run(main())


def ask(client: Any, body: Any) -> Any:
    return client.chat.completions.create(**body) if "messages" in body else client.responses.create(**body)


def tells_a_result(event: Any) -> bool:
    """Whether the answer goes on behind it: with the rest already received, it could end before any draft."""
    if isinstance(event, ChatCompletionChunk):
        return bool(getattr(event.choices[0].delta, "tool_results", None))
    return isinstance(event, ResponseOutputItemDoneEvent) and event.item.type == "function_call_output"


Read = Callable[..., tuple[list[Any], Any]]


@pytest.mark.parametrize("endpoint", ["server", "gateway"])
@pytest.mark.parametrize("how", [read, aread])
@pytest.mark.usefixtures("in_time")
def test_a_chat_completion_goes_on_behind_its_call(
    request: pytest.FixtureRequest, endpoint: str, how: Read
) -> None:
    predictor = AskedAgain([OSLO])
    chunks, client = how(request.getfixturevalue(endpoint), CHAT, predictor)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    (result,) = [delta.tool_results[0] for delta in deltas if getattr(delta, "tool_results", None)]
    assert result["name"] == "get_weather"
    assert result["content"] == '{"city": "Oslo", "temperature": 12, "sky": "rain"}'
    assert "12" in "".join(delta.content or "" for delta in deltas)
    assert chunks[-1].choices[0].finish_reason == "stop"
    total = report_of(client).total
    assert (total.claims, total.misses) == (1, 0)
    assert [part["role"] for part in predictor.requests[1].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("how", [read, aread])
@pytest.mark.usefixtures("in_time")
def test_a_response_goes_on_behind_its_call(server: Running, how: Read) -> None:
    predictor = AskedAgain([OSLO])
    events, client = how(server, RESPONSES, predictor)
    assert [item.type for item in events[-1].response.output] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    assert "12" in events[-1].response.output_text
    total = report_of(client).total
    assert (total.claims, total.misses) == (1, 0)
    assert [part["role"] for part in predictor.requests[1].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("tool_cache", [False, True])
@pytest.mark.usefixtures("without_tool_cache")
def test_an_endpoint_without_one_answers_as_ever(
    server: Running, start_engine: Callable[[], None], tool_cache: bool
) -> None:
    """Algorithm 2, and not a word about it."""

    @speculable
    def get_weather(city: str) -> dict[str, Any]:
        if not tool_cache:
            start_engine()
        return weather_in(city)

    chunks, client = read(server, CHAT, ScriptedSpeculator([OSLO]), tool_cache, get_weather)
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    call = calls[0].model_copy(deep=True)
    call.function.arguments = "".join(piece.function.arguments for piece in calls)
    assert run_tool(client, call) == {"city": "Oslo", "temperature": 12, "sky": "rain"}
    total = report_of(client).total
    assert (total.claims, total.misses) == (1, 0)


def submitted_after(failures: list[int], *, submissions: int) -> list[str]:
    """The paths that are requested for ``submissions`` results where listing the models fails at first.

    A failure is a status, or 0 for a connection that is refused.
    """

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=URL, api_key="none", max_retries=0) as client:
            endpoint = ToolCacheEndpoint(openai)
            for _ in range(submissions):  # as if each came after the last one was through
                await endpoint._asubmit(client, "x", FinishedCall(OSLO, "12 C", 1.0))
                if not endpoint.may_have_cache:
                    break

    refused = httpx.ConnectError("connection refused")
    failed = [
        httpx.Response(status, json={"error": {"message": "x"}}) if status else refused for status in failures
    ]
    listed = httpx.Response(200, json={"data": [{"id": "nano", "capabilities": [CAPABILITY]}]})
    with mock_endpoint(URL, assert_all_called=False) as router:
        router.get("/models").mock(side_effect=[*failed, *[listed] * submissions])
        router.route().respond(json={"cached": 0})
        asyncio.run(main())
        return [call.request.url.path for call in router.calls]


MODELS, SUBMIT = "/v1/models", "/v1/cache-tool-output/x"


@pytest.mark.parametrize(
    ("failures", "paths"),
    [
        ([], [MODELS, SUBMIT, SUBMIT, SUBMIT, SUBMIT]),
        ([0, 503], [MODELS, MODELS, MODELS, SUBMIT, SUBMIT]),
        ([429], [MODELS, MODELS, SUBMIT, SUBMIT, SUBMIT]),
        ([0, 0, 0], [MODELS, MODELS, MODELS]),
        ([404], [MODELS, *[SUBMIT] * 5]),  # the first of these submits nothing: it asks
    ],
)
def test_an_endpoint_that_is_busy_is_asked_again_with_the_next_result(
    failures: list[int], paths: list[str]
) -> None:
    assert submitted_after(failures, submissions=4) == paths
