"""How many tokens an answer may have, on every route that samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.runtime.serving.server import ServerConfig
from agentrt.runtime.serving.server.answer_bound import bound_answers
from agentrt.runtime.serving.server.logprobs import MAX_LOGPROBS
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import HELLO

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
def test_an_answer_without_max_tokens_has_the_servers_default(
    start: Callable[..., Running], route: str, stream: bool
) -> None:
    server = start(default_max_tokens=3)
    body = BODIES[route] | {"stream": stream}
    assert answer_tokens(server, route, dict(body)) == 3
    assert answer_tokens(server, route, body | ASKED.get(route, {"max_tokens": 5})) == 5


def test_below_zero_is_ollamas_default(start: Callable[..., Running]) -> None:
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
