"""``POST /v1/cache-tool-output/{response_id}`` (SpecTools §4.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Start
from tests.runtime.serving.server.conftest import HELLO, WEATHER

OUTPUT: Any = {"name": "get_weather", "params": {"city": "Ljubljana"}, "output": "12 C, rain"}


@contextmanager
def being_written(
    http: httpx.Client, path: str = "/v1/chat/completions", **more: Any
) -> Iterator[tuple[str, Iterator[str]]]:
    """A response whose first event has come: its id and the rest."""
    body = {"model": "nano", "max_tokens": 80, "stream": True} | more
    with http.stream("POST", path, json=body) as response:
        lines = response.iter_lines()
        first = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
        yield first.get("id") or first["response"]["id"], lines


@pytest.mark.parametrize("path", ["/v1/cache-tool-output", "/cache-tool-output"])
def test_outputs_reach_a_response_in_progress(
    http: httpx.Client, gate: Any, weather_tool: Any, path: str
) -> None:
    with being_written(http, messages=WEATHER, tools=[weather_tool]) as (id, lines):
        other = OUTPUT | {"name": "no_such_tool"}
        answer = httpx.post(f"{http.base_url}{path}/{id}", json=[OUTPUT, other])
        assert (answer.status_code, answer.json()) == (200, {"cached": 1})
        assert httpx.post(f"{http.base_url}{path}/{id}", json=[]).json() == {"cached": 0}
        gate.open()
        rest = [line[6:] for line in lines if line.startswith("data: ")]
    assert rest.pop() == "[DONE]"
    choices = [json.loads(chunk)["choices"][0] for chunk in rest]
    (result,) = [place for place, choice in enumerate(choices) if "tool_results" in choice["delta"]]
    deltas = [choice["delta"] for choice in choices]
    id_of_call = next(delta["tool_calls"][0]["id"] for delta in deltas if "tool_calls" in delta)
    expected = {"index": 0, "tool_call_id": id_of_call, "name": "get_weather", "content": "12 C, rain"}
    assert deltas[result]["tool_results"] == [expected]
    assert "12" in "".join(choice["delta"].get("content", "") for choice in choices[result:])
    assert choices[-1]["finish_reason"] == "stop"
    late = http.post(f"{path}/{id}", json=[OUTPUT])
    assert (late.status_code, late.json()) == (200, {"cached": 0})


def test_outputs_reach_responses_too(http: httpx.Client, gate: Any, weather_tool: Any) -> None:
    tool = {"type": "function", **weather_tool["function"]}
    body = {"input": WEATHER, "tools": [tool], "max_output_tokens": 80}
    with being_written(http, "/v1/responses", **body) as (id, lines):
        answer = httpx.post(f"{http.base_url}/v1/cache-tool-output/{id}", json=[OUTPUT])
        assert answer.json() == {"cached": 1}
        gate.open()
        *events, end = [line[6:] for line in lines if line.startswith("data: ")]
    assert end == "[DONE]"
    done = [json.loads(event) for event in events]
    assert done[-1]["type"] == "response.completed"
    call, result, message = items = done[-1]["response"]["output"]
    kinds = [item["type"] for item in items]
    assert kinds == ["function_call", "function_call_output", "message"]
    assert (result["call_id"], result["output"]) == (call["call_id"], "12 C, rain")
    assert "12" in message["content"][0]["text"]
    assert items == [event["item"] for event in done if event["type"] == "response.output_item.done"]


def test_ids_belong_to_their_app(start: Start, gate: Any, weather_tool: Any) -> None:
    server = start(tokens=Tokens([("mine", "t" * 20), ("other", "u" * 20)]))
    mine, other = ({"authorization": f"Bearer {letter * 20}"} for letter in "tu")
    with httpx.Client(base_url=server.url, headers=mine) as http:
        with being_written(http, messages=WEATHER, tools=[weather_tool]) as (id, lines):
            path = f"{server.url}/v1/cache-tool-output/{id}"
            refused = httpx.post(path, json=[OUTPUT], headers=other)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "response_not_found")
            assert httpx.post(path, json=[OUTPUT], headers=mine).json() == {"cached": 1}
            gate.open()
            list(lines)
        assert httpx.post(path, json=[OUTPUT], headers=other).status_code == 404


def test_unknown_ids(http: httpx.Client) -> None:
    for id in ("chatcmpl-0", "x" * 5000, "..", "%00", "chatcmpl-%F0%9F%92%A9"):
        response = http.post(f"/v1/cache-tool-output/{id}", json=[OUTPUT])
        assert response.status_code == 404, id
        assert "error" in response.json()


def test_invalid_bodies(http: httpx.Client) -> None:
    wrong = [("name", ""), ("name", 3), ("params", [1]), ("surprise", 1)]
    wrong += [("keep_alive", 0), ("keep_alive", -1), ("keep_alive", "soon")]
    entries = [[OUTPUT | {field: value}] for field, value in wrong]
    for body in (OUTPUT, [3], [{}], *entries, [OUTPUT] * 65, None):
        response = http.post("/v1/cache-tool-output/chatcmpl-0", json=body)
        assert response.status_code == 400, body
        assert response.json()["error"]["type"] == "invalid_request_error"


def test_outputs_that_are_too_large(http: httpx.Client, gate: Any, weather_tool: Any) -> None:
    with being_written(http, messages=HELLO, tools=[weather_tool]) as (id, _):
        path = f"{http.base_url}/v1/cache-tool-output/{id}"
        assert httpx.post(path, json=[OUTPUT | {"output": "x" * 10_000_000}]).status_code == 413
        assert httpx.post(path, json=[OUTPUT | {"output": "x" * 500_000}]).json() == {"cached": 0}
        endless = OUTPUT | {"params": {"city": 10**400}}
        assert httpx.post(path, json=[endless]).status_code == 400
        gate.open()
