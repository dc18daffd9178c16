"""How many log probabilities a request may have, and how they are sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.engine.output.generation import LogprobsDelta
from agentrt.runtime.engine.output.pending import LOGPROBS_AT_ONCE
from agentrt.runtime.serving.server import ServerConfig
from agentrt.runtime.serving.server.answers import MAX_LOGPROBS, bound_answers
from agentrt.runtime.serving.server.chat import ChatRequest, _ChatWriter
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.server.conftest import HELLO

ROUTES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/v1/chat/completions": (
        {"messages": HELLO, "logprobs": True, "top_logprobs": 20, "n": 16},
        {"max_tokens": 500},
    ),
    "/v1/completions": ({"prompt": ["a", "b"], "logprobs": 5, "n": 8}, {"max_tokens": 1000}),
    "/v1/responses": (
        {"input": "Hello!", "include": ["message.output_text.logprobs"], "top_logprobs": 20},
        {"max_output_tokens": 5000},
    ),
}


@pytest.mark.parametrize("route", ROUTES)
def test_more_log_probabilities_than_a_request_may_have_are_refused(http: httpx.Client, route: str) -> None:
    body, longer = ROUTES[route]
    answer = http.post(route, json=body | longer)
    param = "include" if "include" in body else "logprobs"
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def _events_after_a_pause(runtime: LocalRuntime) -> list[Any]:
    stream = await runtime.start(HELLO, max_tokens=200, ignore_eos=True, logprobs=20)
    events = stream.events()
    first = [await anext(events)]
    await asyncio.wrap_future(stream._pending.output)  # nothing is read until the answer is complete
    return first + [event async for event in events]


def test_what_was_not_read_comes_in_small_parts(runtime: LocalRuntime) -> None:
    events = asyncio.run(_events_after_a_pause(runtime))
    sizes = [len(event.tokens) for event in events if isinstance(event, LogprobsDelta)]
    assert sum(sizes) == 200
    assert max(sizes) <= LOGPROBS_AT_ONCE

    writer = _ChatWriter("nano", ChatRequest(messages=HELLO))
    writer.runtime = runtime
    chunks = [chunk for event in events for chunk in writer.chunks(0, event)]
    sent = [
        len(chunk["choices"][0]["logprobs"]["content"]) for chunk in chunks if chunk["choices"][0]["logprobs"]
    ]
    assert sum(sent) == 200
    assert max(sent) < 2 * LOGPROBS_AT_ONCE


CHAT: dict[str, Any] = {"messages": HELLO, "ignore_eos": True}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/contexts/{id}/chat/completions": CHAT,
    "/v1/completions": {"prompt": "Hello", "ignore_eos": True},
    "/v1/responses": {"input": "Hello!", "ignore_eos": True},
    "/api/chat": {"model": "nano", "messages": HELLO},
    "/api/generate": {"model": "nano", "prompt": "Hello!"},
}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/responses": {"max_output_tokens": 5},
    "/api/chat": {"options": {"num_predict": 5}},
    "/api/generate": {"options": {"num_predict": 5}},
}
"""How a request asks for 5 tokens, where it is not by ``max_tokens``."""


def answer_tokens(server: Running, route: str, body: dict[str, Any]) -> int:
    """Return how many tokens the answer has, as its usage says."""
    with httpx.Client(base_url=server.url, timeout=60) as http:
        if "{id}" in route:
            route = route.format(id=http.post("/v1/contexts", json={}).json()["id"])
        if body["stream"] and route.startswith("/v1") and "responses" not in route:
            body |= {"stream_options": {"include_usage": True}}
        answer = http.post(route, json=body)
        assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if "{" in line]
    last = json.loads(lines[-1])
    last = last.get("response", last) if "responses" in route else last
    usage = last.get("usage", last)
    names = ("completion_tokens", "output_tokens", "eval_count")
    return int(next(usage[name] for name in names if name in usage))


@pytest.mark.check
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", BODIES)
def test_an_answer_without_max_tokens_has_the_servers_default(start: Start, route: str, stream: bool) -> None:
    server = start(default_max_tokens=3)
    body = BODIES[route] | {"stream": stream}
    assert answer_tokens(server, route, dict(body)) == 3
    assert answer_tokens(server, route, body | ASKED.get(route, {"max_tokens": 5})) == 5


def test_below_zero_is_ollamas_default(start: Start) -> None:
    server = start(default_max_tokens=3)
    body = {"model": "nano", "prompt": "Hello!", "stream": False, "options": {"num_predict": -1}}
    assert answer_tokens(server, "/api/generate", body) == 3


@pytest.mark.parametrize("tokens", [0, -1, 1.5, True])
def test_a_default_that_no_answer_can_have_is_refused(tokens: Any) -> None:
    with pytest.raises(ConfigurationError, match="default_max_tokens"):
        ServerConfig(default_max_tokens=tokens)


def test_a_default_gives_way_to_the_number_of_log_probabilities() -> None:
    options: Any = {"logprobs": 20}
    bound_answers(options, default=10**6, answers=2)
    assert MAX_LOGPROBS - 42 < options["max_tokens"] * 2 * 21 <= MAX_LOGPROBS
    options = {"logprobs": 20, "max_tokens": None}
    bound_answers(options, default=7)
    assert options["max_tokens"] == 7


def test_with_log_probabilities_an_answer_gets_a_limit() -> None:
    options: Any = {"logprobs": 20}
    bound_answers(options, default=None, answers=2)
    assert MAX_LOGPROBS - 42 < options["max_tokens"] * 2 * 21 <= MAX_LOGPROBS
    nothing: Any = {"logprobs": 20, "max_tokens": 0}
    bound_answers(nothing, default=None)
    assert nothing["max_tokens"] == 0  # the runtime refuses it


def test_a_limit_that_fits_stays_and_nothing_is_bounded_without_log_probabilities() -> None:
    fits: Any = {"logprobs": 0, "max_tokens": MAX_LOGPROBS}
    bound_answers(fits, default=None)
    assert fits["max_tokens"] == MAX_LOGPROBS
    with pytest.raises(InvalidRequestError, match=f"at most {MAX_LOGPROBS // 2} tokens"):
        bound_answers(fits, default=None, answers=2)
    free: Any = {"max_tokens": 10**9, "logprobs": None}
    bound_answers(free, default=None, answers=16)
    assert free["max_tokens"] == 10**9
