"""The endpoint speculator and a scripted endpoint; a real server where connections matter."""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai
import pytest

from agentrt import DraftRequest, SpeculationConfig, SpeculationSession, ToolCall, speculable
from agentrt.calls import ToolCallFormat
from agentrt.config import Budget
from agentrt.drafts import DraftCost, estimated_tokens
from agentrt.errors import ConfigurationError, PredictorError
from agentrt.reports.events import PredictorCharged, PredictorSkipped, PredictorStopped
from agentrt.speculators import EndpointSpeculator, Speculator
from agentrt.testing import mock_endpoint
from tests.patience import PATIENCE_S

MESSAGES = [{"role": "user", "content": "What is the weather in Oslo?"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


class Endpoint:
    """An OpenAI-compatible endpoint that gives scripted answers and keeps the requests."""

    url = "http://drafts.test/v1"

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.predictors: list[EndpointSpeculator] = []
        self.answer: Any = None
        self.headers: dict[str, str] = {}
        self.held_from: float = math.inf
        """The number of the first request that is answered at the end of the test only."""
        self.release = threading.Event()

    async def respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(json.loads(request.content))
        number = len(self.requests)
        if number >= self.held_from:
            await asyncio.to_thread(self.release.wait, PATIENCE_S)
        answer = self.answer(number)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        headers = {"content-type": "application/json"} | self.headers
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.Response(status, content=raw, headers=headers)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with mock_endpoint(made.url, assert_all_called=False) as router:
        router.post("/chat/completions").mock(side_effect=made.respond)
        yield made
        made.release.set()
        for predictor in made.predictors:
            asyncio.run(predictor.aclose())


def completion(*, content: str | None = None, calls: list[tuple[str, str]] | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ]
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def speculator(endpoint: Endpoint, **options: Any) -> EndpointSpeculator:
    made = EndpointSpeculator("draft", base_url=endpoint.url, api_key="none", **options)
    endpoint.predictors.append(made)
    return made


def drafts(predictor: EndpointSpeculator, samples: int = 1) -> list[ToolCall]:
    async def collect() -> list[ToolCall]:
        return [call async for call in predictor.drafts(DraftRequest(MESSAGES, TOOLS, samples))]

    return asyncio.run(collect())


def test_parsed_calls_are_drafts_and_the_request_is_the_main_models(endpoint: Endpoint) -> None:
    endpoint.answer = lambda n: completion(calls=[("get_weather", '{"city": "Oslo"}'), ("other", "{}")])
    predictor = speculator(endpoint)
    assert isinstance(predictor, Speculator)
    assert drafts(predictor) == [ToolCall("get_weather", {"city": "Oslo"}), ToolCall("other", {})]
    (request,) = endpoint.requests
    assert (request["model"], request["messages"], request["tools"]) == ("draft", MESSAGES, TOOLS)
    assert request["temperature"] == 0.0


def test_samples_are_requests_of_their_own_and_the_first_is_greedy(endpoint: Endpoint) -> None:
    endpoint.answer = lambda n: completion(calls=[("get_weather", json.dumps({"n": n}))])
    assert len(drafts(speculator(endpoint, temperature=0.8), samples=3)) == 3
    assert sorted(request["temperature"] for request in endpoint.requests) == [0.0, 0.4, 0.8]
    assert len(drafts(speculator(endpoint, samples=2), samples=5)) == 2


@pytest.mark.parametrize(
    ("format", "content"),
    [
        (
            ToolCallFormat.HERMES,
            '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>',
        ),
        (ToolCallFormat.LLAMA3_JSON, '{"name": "get_weather", "parameters": {"city": "Oslo"}}'),
        (ToolCallFormat.PYTHONIC, "[get_weather(city='Oslo')]"),
        ("pythonic", "[get_weather(city='Oslo')]"),
        (ToolCallFormat.XLAM, '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]'),
    ],
)
def test_calls_written_as_text_are_read(
    endpoint: Endpoint, format: ToolCallFormat | str, content: str
) -> None:
    endpoint.answer = lambda n: completion(content=content)
    assert drafts(speculator(endpoint, format=format)) == [ToolCall("get_weather", {"city": "Oslo"})]
    assert drafts(speculator(endpoint)) == []


def test_one_predictor_serves_several_event_loops() -> None:
    """Over one open connection, which belongs to the event loop that made it."""
    clients = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            clients.append(self.client_address)
            self.rfile.read(int(self.headers["content-length"]))
            raw = json.dumps(completion(calls=[("get_weather", "{}")])).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        predictor = EndpointSpeculator("draft", base_url=url, api_key="none")
        assert drafts(predictor) == drafts(predictor) == [ToolCall("get_weather", {})]
        asyncio.run(predictor.aclose())
        server.shutdown()
    assert len(clients) == 2
    assert len(set(clients)) == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((500, {"error": {"message": "out of order"}}), "InternalServerError"),
        ((429, {"error": {"message": "slow down"}}), "RateLimitError"),
        ((200, b"<html>not JSON"), "failed"),
        (completion(calls=[("get_weather", '{"city": NaN}')]), "ValueError"),
        (completion(calls=[("get_weather", "[1, 2]")]), "ValueError"),
        (completion(calls=[("get_weather", '{"a":' * 100_000)]), "ValueError"),
        (httpx.ConnectError("connection refused"), "APIConnectionError"),
    ],
)
def test_an_endpoint_in_trouble_is_reported_and_not_retried(
    endpoint: Endpoint, answer: Any, problem: str
) -> None:
    endpoint.answer = lambda n: answer
    report = one_turn(endpoint)
    assert len(report.turns[0].problems) == 1
    assert problem in report.turns[0].problems[0]
    assert len(endpoint.requests) == 1


def one_turn(endpoint: Endpoint) -> Any:
    """A turn whose main model answers once the predictor has failed."""
    failed = threading.Event()

    @speculable
    def get_weather(city: str) -> str:
        return city

    class Observer:
        def on_event(self, event: Any) -> None:
            if type(event).__name__ == "PredictorFailed":
                failed.set()

    with SpeculationSession([get_weather], [speculator(endpoint)], observers=[Observer()]) as session:
        with session.turn(MESSAGES, TOOLS) as turn:
            assert failed.wait(PATIENCE_S)
            turn.bind([ToolCall("get_weather", {"city": "Oslo"}, "call_1")])
        assert session.call(ToolCall("get_weather", {"city": "Oslo"}, "call_1")) == "Oslo"
    return session.report()


def test_a_slow_endpoint_is_left_when_the_main_model_answers(endpoint: Endpoint) -> None:
    endpoint.held_from = 1
    endpoint.answer = lambda n: completion()

    async def main() -> None:
        predictor = speculator(endpoint)
        async with SpeculationSession([], [predictor]) as session:
            with session.turn(MESSAGES, TOOLS) as turn:
                turn.bind([])
        assert not endpoint.release.is_set()

    asyncio.run(main())


def test_wrong_use_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="api_key="):
        EndpointSpeculator("draft", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ConfigurationError, match="samples"):
        EndpointSpeculator("draft", api_key="x", samples=0)
    with pytest.raises(ConfigurationError, match="agreement"):
        EndpointSpeculator("draft", api_key="x", agreement=0)


def test_equal_calls_are_drafted_once(endpoint: Endpoint) -> None:
    endpoint.answer = lambda n: completion(calls=[("get_weather", '{"city": "Oslo", "days": 1}')] * 2)
    assert drafts(speculator(endpoint), samples=2) == [ToolCall("get_weather", {"city": "Oslo", "days": 1})]


def test_the_rest_is_not_waited_for_once_enough_samples_agree(endpoint: Endpoint) -> None:
    endpoint.held_from = 3
    endpoint.answer = lambda n: completion(calls=[("get_weather", '{"city": "Oslo"}')])
    assert len(drafts(speculator(endpoint, agreement=2), samples=4)) == 1
    assert not endpoint.release.is_set()


def spent_on(predictor: EndpointSpeculator, samples: int = 1) -> DraftCost:
    """What one prediction without drafts costs in all."""
    spent: list[DraftCost] = []

    async def ask() -> None:
        request = DraftRequest(MESSAGES, TOOLS, samples, spend=spent.append)
        with suppress(openai.OpenAIError):
            assert [call async for call in predictor.drafts(request)] == []

    asyncio.run(ask())
    total = sum(spent, DraftCost())
    return replace(total, money=round(total.money, 9))


def test_the_cost_is_that_of_the_usage_and_estimated_where_there_is_none(endpoint: Endpoint) -> None:
    usages: list[Any] = [
        {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        None,
        {"prompt_tokens": -5, "completion_tokens": None, "total_tokens": 0},
    ]
    endpoint.answer = lambda n: {**completion(), "usage": usages[n - 1]}
    predictor = speculator(endpoint, input_price=2.0, output_price=10.0)
    estimated = DraftCost(40, 0, 8e-05)
    assert estimated_tokens(DraftRequest(MESSAGES, TOOLS)) == 40
    assert [spent_on(predictor) for _ in usages] == [DraftCost(1000, 100, 0.003), estimated, estimated]


def test_a_request_that_no_model_has_read_costs_nothing(endpoint: Endpoint) -> None:
    def answer(number: int) -> Any:
        if number > 2:
            return httpx.ConnectError("connection refused")
        return 500 if number == 1 else 429, {"error": {"message": "not now"}}

    endpoint.answer = answer
    assert [spent_on(speculator(endpoint)) for _ in range(3)] == [DraftCost()] * 3


def cut_off(endpoint: Endpoint, turns: int, budget: Budget, *, samples: int) -> Any:
    """Turns whose main model answers once each sample has been sent or refused, and none is answered."""
    endpoint.held_from = 1
    endpoint.answer = lambda n: completion()
    settled = threading.Semaphore(0)

    class Watch:
        def on_event(self, event: Any) -> None:
            if isinstance(event, (PredictorCharged, PredictorStopped)):
                settled.release()
            elif isinstance(event, PredictorSkipped):
                settled.release(samples)

    async def main() -> Any:
        predictor = speculator(endpoint, input_price=1e6)
        config = SpeculationConfig(budget=budget)
        async with SpeculationSession(
            [], [predictor], samples=samples, config=config, observers=[Watch()]
        ) as session:
            for _ in range(turns):
                with session.turn(MESSAGES, TOOLS) as turn:
                    for _ in range(samples):
                        assert await asyncio.to_thread(settled.acquire, timeout=PATIENCE_S)
                    turn.bind([])
            return session.report()

    return asyncio.run(main())


def test_requests_that_are_cut_off_have_cost_what_they_sent(endpoint: Endpoint) -> None:
    report = cut_off(endpoint, 5, Budget(), samples=2)
    (spent,) = report.predictors.values()
    assert (spent.input_tokens, spent.output_tokens, spent.money) == (400, 0, pytest.approx(400))


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("budget", [Budget(tokens=7 * 40), Budget(money=7 * 40 + 0.001)])
def test_a_budget_of_seven_requests_stops_a_predictor_that_is_always_cut_off(
    endpoint: Endpoint, budget: Budget, samples: int
) -> None:
    report = cut_off(endpoint, 12 if samples == 1 else 4, budget, samples=samples)
    (spent,) = report.predictors.values()
    assert spent.input_tokens == 7 * 40
    assert len(endpoint.requests) <= 7
    problems = [problem for turn in report.turns for problem in turn.problems]
    assert problems
    assert all("is spent" in problem for problem in problems)


@pytest.mark.parametrize(
    ("headers", "pause_s"),
    [
        ({"retry-after": "30"}, 30.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "1e12"}, 3600.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_an_endpoint_that_says_when_is_left_alone_until_then(
    endpoint: Endpoint, status: int, headers: dict[str, str], pause_s: float | None
) -> None:
    endpoint.headers = headers
    endpoint.answer = lambda n: (status, {"error": {"message": "slow down"}})
    now = [100.0]
    predictor = speculator(endpoint, clock=lambda: now[0])
    with pytest.raises(openai.APIStatusError):
        drafts(predictor)
    endpoint.answer = lambda n: completion(calls=[("get_weather", "{}")])
    if pause_s is not None:
        now[0] += pause_s - 0.01
        with pytest.raises(PredictorError):
            drafts(predictor)
        assert len(endpoint.requests) == 1
        now[0] += 0.02
    assert len(drafts(predictor)) == 1


def test_a_date_says_when_as_well(endpoint: Endpoint) -> None:
    endpoint.headers = {"retry-after": email.utils.formatdate(time.time() + 600, usegmt=True)}
    endpoint.answer = lambda n: (429, {})
    now = [0.0]
    predictor = speculator(endpoint, clock=lambda: now[0])
    with pytest.raises(openai.RateLimitError):
        drafts(predictor)
    with pytest.raises(PredictorError, match=r"Wait (59\d|60[01]) s"):
        drafts(predictor)
