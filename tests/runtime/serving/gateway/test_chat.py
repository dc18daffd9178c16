"""Cached calls answered by a second request to a real engine, over real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.gateway.chat import ResumableRequest
from agentrt.runtime.serving.http.identity import Tokens
from tests.runtime.serving.http.serving import Running, Start, until
from tests.runtime.serving.server.conftest import HELLO, WEATHER

OUTPUT: Any = {"name": "get_weather", "params": {"city": "Ljubljana"}, "output": "12 C, rain"}
CHAT: Any = {"model": "nano", "messages": WEATHER, "stream": True}


@contextmanager
def being_written(http: httpx.Client, **more: Any) -> Iterator[tuple[str, Iterator[str]]]:
    """A response whose first event has come: its id and the rest."""
    with http.stream("POST", "/v1/chat/completions", json=CHAT | more) as response:
        assert response.status_code == 200, response.read()
        lines = response.iter_lines()
        first = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
        yield first["id"], lines


def chunks_of(lines: Iterator[str]) -> list[dict[str, Any]]:
    events = [line[6:] for line in lines if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    return [json.loads(chunk) for chunk in events]


def with_output(http: httpx.Client, gate: Any, output: Any = OUTPUT, **more: Any) -> list[dict[str, Any]]:
    """A whole answer whose tool output was submitted before the engine generated anything."""
    with being_written(http, **more) as (id, lines):
        assert httpx.post(f"{http.base_url}/v1/cache-tool-output/{id}", json=[output]).json() == {"cached": 1}
        gate.open()
        chunks = chunks_of(lines)
    assert {chunk["id"] for chunk in chunks} == {id}
    return chunks


def by_itself(client: openai.OpenAI, **more: Any) -> tuple[Any, Any]:
    """Both answers of a client that runs the tool."""
    request_body: Any = CHAT | {"stream": False} | more
    first = client.chat.completions.create(**request_body)
    message = first.choices[0].message.model_dump(exclude_none=True)
    (call,) = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": OUTPUT["output"]}
    return first, client.chat.completions.create(**request_body | {"messages": [*WEATHER, message, result]})


def deltas(chunks: list[dict[str, Any]], name: str) -> list[Any]:
    return [
        choice["delta"][name] for chunk in chunks for choice in chunk["choices"] if choice["delta"].get(name)
    ]


@pytest.fixture
def engine_client(engine: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def test_an_answer_continues_after_its_call(
    http: httpx.Client, engine_client: openai.OpenAI, gate: Any, weather_tool: Any
) -> None:
    request_body = {"tools": [weather_tool], "stream_options": {"include_usage": True}}
    chunks = with_output(http, gate, **request_body)
    first, second = by_itself(engine_client, tools=[weather_tool])
    # The transcript, token for token, and the sum of what both answers took.
    calls = [part for parts in deltas(chunks, "tool_calls") for part in parts]
    assert calls[0]["function"]["name"] == "get_weather"
    arguments = "".join(part["function"]["arguments"] for part in calls)
    assert arguments == first.choices[0].message.tool_calls[0].function.arguments
    results = deltas(chunks, "tool_results")
    assert results == [
        [{"index": 0, "tool_call_id": calls[0]["id"], "name": "get_weather", "content": "12 C, rain"}]
    ]
    assert "".join(deltas(chunks, "content")) == second.choices[0].message.content
    finished = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert [reason for reason in finished if reason] == ["stop"]
    assert finished[-1] == "stop"
    usage = chunks[-1]["usage"]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert usage[name] == getattr(first.usage, name) + getattr(second.usage, name)
    assert deltas(chunks, "role") == []  # the opening chunk has it


@pytest.mark.parametrize(
    ("headers", "fields"), [({}, {"priority": 10}), ({"x-agentrt-priority": "proactive"}, {})]
)
def test_every_turn_has_the_priority_of_the_request(
    http: httpx.Client,
    runtime: LocalRuntime,
    gate: Any,
    weather_tool: Any,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    fields: dict[str, Any],
) -> None:
    process, served = runtime._input_processor.process, list[Any]()

    def spy(*args: Any, **options: Any) -> Any:
        served.append(process(*args, **options))
        return served[-1]

    monkeypatch.setattr(runtime._input_processor, "process", spy)
    http.headers.update(headers)
    with_output(http, gate, tools=[weather_tool], **fields)
    assert [request.priority for request in served] == [Priority.PROACTIVE] * 2


def test_a_limit_holds_for_all_turns(
    http: httpx.Client, engine_client: openai.OpenAI, runtime: LocalRuntime, hold: Any, weather_tool: Any
) -> None:
    first, _ = by_itself(engine_client, tools=[weather_tool])
    gate = hold(runtime)
    call_tokens = first.usage.completion_tokens
    chunks = with_output(http, gate, tools=[weather_tool], max_tokens=call_tokens + 3)
    assert deltas(chunks, "tool_results")
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert not any("usage" in chunk for chunk in chunks)  # it was not requested
    chunks = with_output(http, hold(runtime), tools=[weather_tool], max_completion_tokens=call_tokens)
    assert deltas(chunks, "tool_results") == []
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_an_engine_that_does_not_continue(
    http: httpx.Client, gate: Any, weather_tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client makes the call itself, as if there were no cache."""
    monkeypatch.setattr(ResumableRequest, "next_body", lambda *_: b"{}")  # which the engine refuses
    chunks = with_output(http, gate, tools=[weather_tool], stream_options={"include_usage": True})
    assert deltas(chunks, "tool_results") == []
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["completion_tokens"] > 0


def test_ids_belong_to_their_app(start: Start, engine: Running, gate: Any, weather_tool: Any) -> None:
    gateway = start(engine.url, tokens=Tokens([("mine", "t" * 20), ("other", "u" * 20)]))
    mine, other = ({"authorization": f"Bearer {letter * 20}"} for letter in "tu")
    with httpx.Client(base_url=gateway.url, headers=mine, timeout=60) as http:
        with being_written(http, tools=[weather_tool]) as (id, lines):
            path = f"{gateway.url}/cache-tool-output/{id}"
            refused = httpx.post(path, json=[OUTPUT], headers=other)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "response_not_found")
            assert httpx.post(path, json=[OUTPUT]).status_code == 401
            assert httpx.post(path, json=[OUTPUT], headers=mine).json() == {"cached": 1}
            gate.open()
            assert deltas(chunks_of(lines), "tool_results")
        assert httpx.post(path, json=[OUTPUT], headers=mine).json() == {"cached": 0}


@pytest.mark.parametrize("answered", [False, True])
def test_a_client_that_disconnects_is_disconnected_from_the_engine(
    http: httpx.Client,
    gateway: Running,
    engine: Running,
    runtime: LocalRuntime,
    gate: Any,
    weather_tool: Any,
    answered: bool,
) -> None:
    cancelled = runtime.statistics().engine.cancelled
    with being_written(http, tools=[weather_tool], ignore_eos=not answered) as (id, lines):
        gate.arrived()
        if answered:
            httpx.post(f"{http.base_url}/v1/cache-tool-output/{id}", json=[OUTPUT])
            gate.allow(10**4)
            next(line for line in lines if "tool_results" in line)
            return  # whatever it still says is thrown away
    gate.open()
    until(lambda: runtime.statistics().engine.cancelled > cancelled)
    until(lambda: engine.admission.active == gateway.admission.active == 0)


def test_errors_before_the_stream_are_relayed(http: httpx.Client, engine: Running) -> None:
    for body in (CHAT | {"model": "gone"}, CHAT | {"messages": []}, CHAT | {"tools": [3]}, [], None):
        ours, theirs = (
            httpx.post(f"{url}/v1/chat/completions", json=body) for url in (http.base_url, engine.url)
        )
        assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
        assert ours.status_code >= 400


def test_the_official_client(gateway: Running) -> None:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        (model,) = client.models.list()
        assert model.capabilities == ["cache-tool-output"]  # type: ignore[attr-defined]
        assert client.models.retrieve("nano").capabilities == ["cache-tool-output"]  # type: ignore[attr-defined]
        request_body: Any = {"model": "nano", "messages": HELLO}
        whole = client.chat.completions.create(**request_body)
        streamed = client.chat.completions.create(**request_body, stream=True)
        assert (
            "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
            == whole.choices[0].message.content
        )
        assert (
            client.responses.create(model="nano", input="Hello!").output_text
            == whole.choices[0].message.content
        )
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gone")


REQUEST: dict[str, Any] = {"stream": True, "messages": [], "tools": [{}]}


@pytest.mark.parametrize(
    "fields",
    [
        {"stop": [1] * 100_000},
        {"continue_final_message": True, "add_generation_prompt": False},
        {"add_generation_prompt": False},
        {"kv_transfer_params": {"do_remote_prefill": True}},
    ],
    ids=["too many values", "a continued message", "no generation prompt", "keys and values of elsewhere"],
)
def test_requests_that_are_left_to_the_engine(fields: dict[str, Any]) -> None:
    assert ResumableRequest.parse(json.dumps(REQUEST | fields).encode()) is None
    unset = dict.fromkeys(fields, None)
    assert ResumableRequest.parse(json.dumps(REQUEST | unset).encode()) is not None
