"""A gateway in front of vLLM: run by hand, as docs/gateway.md says."""

from __future__ import annotations

import os
from typing import Any

import httpx
import pytest

from tests.runtime.serving.gateway.scripted import streaming, submit
from tests.runtime.serving.http.serving import Start
from tests.runtime.serving.server.conftest import HELLO

ENGINE = os.environ.get("AGENTRT_TEST_VLLM", "")

pytestmark = pytest.mark.skipif(not ENGINE, reason="AGENTRT_TEST_VLLM names no vLLM server")

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture
def request_body() -> dict[str, Any]:
    """Weights may be random: the words of the call are forced, and what follows is the engine's own."""
    model = httpx.get(f"{ENGINE}/v1/models").json()["data"][0]["id"]
    return {
        "model": model,
        "messages": HELLO,
        "tools": [TOOL],
        "structured_outputs": {"choice": [CALL]},
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_call_is_answered_in_front_of_vllm(start: Start, request_body: dict[str, Any]) -> None:
    gateway = start(ENGINE)
    with streaming(gateway, request_body) as (id, data):
        assert submit(gateway, id, {"name": "get_weather", "params": {"city": "Oslo"}, "output": "12 C"}) == 1
        *chunks, end = data
    assert end == "[DONE]"
    assert {chunk["id"] for chunk in chunks} == {id}
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    results = [result for delta in deltas for result in delta.get("tool_results", ())]
    # The same words are forced again each time, and each time answered, up to the limit on turns.
    assert [result["index"] for result in results] == list(range(31))
    ids = {part["id"] for delta in deltas for part in delta.get("tool_calls") or () if part.get("id")}
    assert len(ids) == 32
    assert {result["tool_call_id"] for result in results} < ids
    finished = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert [reason for reason in finished if reason] == ["tool_calls"]
    assert chunks[-1]["usage"]["completion_tokens"] >= 32
