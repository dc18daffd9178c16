"""Requests of speculation, and of the clients that it sends them by, are parts of the user's trace."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from opentelemetry import trace

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.adapters.openai import speculate
from agentrt.adapters.stainless.tool_cache import CAPABILITY
from agentrt.speculators import EndpointSpeculator
from agentrt.testing import ScriptedSpeculator, mock_endpoint
from tests.adapters.openai.doubles import chat_completion, chat_events
from tests.patience import PATIENCE_S, until
from tests.recorded_telemetry import Recorded, telemetry

__all__ = ["telemetry"]

URL = "http://model.test/v1"
OSLO = ToolCall("get_weather", {"city": "Oslo"})
CALLED = [("c1", "get_weather", json.dumps(OSLO.arguments))]
MESSAGES: Any = [{"role": "user", "content": "What is the weather in Oslo?"}]
TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def parent_of(request: httpx.Request) -> tuple[int, int]:
    """Return the trace and the span that a request continues."""
    _, traced, parent, _ = request.headers["traceparent"].split("-")
    return int(traced, 16), int(parent, 16)


def test_a_draft_request_is_below_its_turn(telemetry: Recorded) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json=chat_completion(CALLED))

    @speculable
    def get_weather(city: str) -> str:
        return city

    with mock_endpoint(URL) as endpoint:
        route = endpoint.post("/chat/completions").mock(side_effect=answer)
        predictor = EndpointSpeculator("draft", base_url=URL, api_key="none")
        with (
            SpeculationSession([get_weather], [predictor]) as session,
            session.turn(MESSAGES, TOOLS) as turn,
        ):
            until(lambda: route.called)  # respx counts a call once it is answered
            turn.bind([])
    (speculated,) = telemetry.spans("speculate")
    assert parent_of(sent[0]) == (speculated.context.trace_id, speculated.context.span_id)


@pytest.fixture
def sent() -> Iterator[list[httpx.Request]]:
    """Requests to an endpoint with a tool cache that calls a tool."""
    requests: list[httpx.Request] = []
    submitted = threading.Event()

    def stream() -> Iterator[bytes]:
        for event in chat_events(CALLED):
            yield f"data: {json.dumps(event)}\n\n".encode()
            assert submitted.wait(PATIENCE_S)
        yield b"data: [DONE]\n\n"

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream())

    def take(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        submitted.set()
        return httpx.Response(200, json={})

    with mock_endpoint(URL) as endpoint:
        listed = {"object": "list", "data": [{"id": "m", "object": "model", "capabilities": [CAPABILITY]}]}
        endpoint.get("/models").respond(json=listed)
        endpoint.post("/chat/completions").mock(side_effect=answer)
        taken = endpoint.post(path__startswith="/cache-tool-output/").mock(side_effect=take)
        yield requests
        until(lambda: taken.called)


def test_a_request_and_the_submission_beside_it_are_in_the_user_s_trace(
    telemetry: Recorded, sent: list[httpx.Request]
) -> None:
    @speculable
    def get_weather(city: str) -> str:
        return city

    client = speculate(
        openai.OpenAI(base_url=URL, api_key="none", max_retries=0),
        [ScriptedSpeculator([OSLO])],
        tools=[get_weather],
        tool_cache=True,
    )
    with trace.get_tracer("user").start_as_current_span("user") as user:
        _ = list(client.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS, stream=True))
        assert get_weather("Oslo") == "Oslo"
    asked, submitted = sent
    traced = user.get_span_context()
    assert parent_of(asked) == (traced.trace_id, traced.span_id)
    # It is sent when its run ends, or when the answer begins if that is later.
    (early,) = [span for span in telemetry.spans() if "agentrt.predictor" in (span.attributes or {})]
    traced_in, parent = parent_of(submitted)
    assert traced_in == traced.trace_id
    assert parent in (traced.span_id, early.context.span_id)


def test_what_the_user_has_set_stays(telemetry: Recorded) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json=chat_completion([]))

    @speculable
    def get_weather(city: str) -> str:
        return city

    plain = openai.OpenAI(base_url=URL, api_key="none")
    client = speculate(plain, ScriptedSpeculator([]), tools=[get_weather])
    own = {"TraceParent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    with mock_endpoint(URL) as endpoint, trace.get_tracer("user").start_as_current_span("user"):
        endpoint.post("/chat/completions").mock(side_effect=answer)
        client.chat.completions.create(model="m", messages=MESSAGES, extra_headers=own)
    assert [sent[0].headers["traceparent"]] == list(own.values())
