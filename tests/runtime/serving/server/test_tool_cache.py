"""``POST /v1/cache-tool-output/{response_id}`` (SpecTools §4.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from openai.lib.streaming._deltas import accumulate_delta

from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, Start
from tests.runtime.serving.server.conftest import HELLO, WEATHER

CHAT = "/v1/chat/completions"
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


@pytest.mark.parametrize("older", [False, True])
def test_an_answered_message_is_taken_back_as_it_came(
    server: Running, http: httpx.Client, gate: Any, weather_tool: Any, processed: list[Any], older: bool
) -> None:
    function = weather_tool["function"]
    tools: Any = {"functions": [function]} if older else {"tools": [weather_tool]}
    request: Any = {"model": "nano", "messages": WEATHER, "max_tokens": 80, **tools}
    message: dict[object, object] = {}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=60) as client:
        for chunk in client.chat.completions.create(**request, stream=True):
            if not message:
                assert http.post(f"/v1/cache-tool-output/{chunk.id}", json=[OUTPUT]).json() == {"cached": 1}
                gate.open()
            accumulate_delta(message, chunk.choices[0].delta.to_dict())
        client.chat.completions.create(**request | {"messages": [*WEATHER, message, *HELLO]})
    said, results = message["content"], message["tool_results"]
    assert isinstance(said, str)
    assert "12" in said
    assert isinstance(results, list)
    calls = [
        {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": OUTPUT["params"]}}
    ]
    turns = [
        *WEATHER,
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "12 C, rain"},
        {"role": "assistant", "content": said},
        *HELLO,
    ]
    tools_of_turns = [{"type": "function", "function": function}]
    newer = request | {"messages": turns, "functions": None, "tools": tools_of_turns}
    assert http.post(CHAT, json=newer).status_code == 200
    assert processed[-2].prompt_token_ids == processed[-1].prompt_token_ids
    results[0].update(tool_call_id="other")
    if not older:
        wrong = http.post(CHAT, json=request | {"messages": [*WEATHER, message, *HELLO]})
        assert wrong.json()["error"]["param"] == "messages[1].tool_results[0].tool_call_id"


def test_calls_without_an_output_follow_those_with_one(http: httpx.Client, processed: list[Any]) -> None:
    made = [{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}} for id in "ab"]
    results = [{"index": 0, "tool_call_id": "a", "name": "look", "content": "A"}]
    message = {"role": "assistant", "content": None, "tool_calls": made, "tool_results": results}
    outputs = [{"role": "tool", "tool_call_id": id, "content": id.upper()} for id in "ab"]
    turns = [{"role": "assistant", "content": "", "tool_calls": [call]} for call in made]
    in_turns = [turns[0], outputs[0], turns[1], outputs[1]]
    for messages in ([message, outputs[1]], in_turns):
        response = http.post(CHAT, json={"model": "nano", "messages": [*WEATHER, *messages], "max_tokens": 1})
        assert response.status_code == 200, response.text
    assert processed[-2].prompt_token_ids == processed[-1].prompt_token_ids


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
