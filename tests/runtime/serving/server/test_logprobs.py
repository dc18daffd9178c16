"""How many log probabilities a request may have, and how they are sent."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.engine.output.generation import LogprobsDelta
from agentrt.runtime.engine.output.pending import LOGPROBS_AT_ONCE
from agentrt.runtime.serving.server.chat_answer import ChoiceStream, CompletionMetadata
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

    writer = ChoiceStream(CompletionMetadata(runtime, "nano", "default", False), 0, include_usage=False)
    chunks = [chunk for event in events for chunk in writer.chunks(event)]
    sent = [
        len(chunk["choices"][0]["logprobs"]["content"]) for chunk in chunks if chunk["choices"][0]["logprobs"]
    ]
    assert sum(sent) == 200
    assert max(sent) < 2 * LOGPROBS_AT_ONCE
