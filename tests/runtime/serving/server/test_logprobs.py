"""How many log probabilities a request may have, and how they are sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.engine.output.generation import LogprobsDelta
from agentrt.runtime.engine.output.pending import LOGPROBS_AT_ONCE
from agentrt.runtime.serving.server.answers import MAX_LOGPROBS, bound_answers
from agentrt.runtime.serving.server.chat import ChatRequest, _ChatWriter
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.server.conftest import HELLO, client_of

IN_RESPONSES = {"include": ["message.output_text.logprobs"], "top_logprobs": 20, "max_output_tokens": 5000}


@pytest.mark.parametrize(
    ("route", "body", "param"),
    [
        ("chat/completions", {"messages": HELLO, "logprobs": True, "n": 16, "max_tokens": 5000}, "logprobs"),
        ("completions", {"prompt": ["a", "b"], "logprobs": 5, "n": 8, "max_tokens": 1000}, "logprobs"),
        ("responses", {"input": "Hello!", **IN_RESPONSES}, "include"),
    ],
)
def test_more_log_probabilities_than_a_request_may_have_are_refused(
    http: httpx.Client, route: str, body: dict[str, Any], param: str
) -> None:
    answer = http.post(f"/v1/{route}", json=body)
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
    with client_of(server) as http:
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
def test_an_answer_without_max_tokens_has_the_servers_default(start: Start) -> None:
    server = start(default_max_tokens=3)
    for route, asked in BODIES.items():
        for body in (asked | {"stream": False}, asked | {"stream": True}):
            assert answer_tokens(server, route, dict(body)) == 3
            assert answer_tokens(server, route, body | ASKED.get(route, {"max_tokens": 5})) == 5
    below_zero = BODIES["/api/generate"] | {"stream": False, "options": {"num_predict": -1}}
    assert answer_tokens(server, "/api/generate", below_zero) == 3


@pytest.mark.parametrize(
    ("asked", "default", "answers", "bound"),
    [
        ({"logprobs": 20}, 10**6, 2, MAX_LOGPROBS // 42),
        ({"logprobs": 20}, None, 2, MAX_LOGPROBS // 42),
        ({"logprobs": 20, "max_tokens": None}, 7, 1, 7),
        ({"logprobs": 20, "max_tokens": 0}, None, 1, 0),  # the runtime refuses it
        ({"logprobs": 0, "max_tokens": MAX_LOGPROBS}, None, 1, MAX_LOGPROBS),
        ({"logprobs": 0, "max_tokens": MAX_LOGPROBS}, None, 2, None),
        ({"logprobs": None, "max_tokens": 10**9}, None, 16, 10**9),
    ],
)
def test_answers_are_bounded(asked: Any, default: int | None, answers: int, bound: int | None) -> None:
    """By the server's default, and by the number of log probabilities; a greater number is refused."""
    if bound is None:
        with pytest.raises(InvalidRequestError, match=f"at most {MAX_LOGPROBS // answers} tokens"):
            bound_answers(asked, default, answers)
    else:
        bound_answers(asked, default, answers)
        assert asked["max_tokens"] == bound
