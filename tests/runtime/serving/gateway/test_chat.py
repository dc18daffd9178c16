"""Cached calls answered by a second request to a real engine, over real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.serving.gateway.chat import ResumableRequest
from tests.runtime.serving.gateway.scripted import streaming, submit
from tests.runtime.serving.http.serving import MAIL, NOTES, TOKENS, Running, Start, until
from tests.runtime.serving.server.conftest import HELLO, WEATHER

OUTPUT: Any = {"name": "get_weather", "params": {"city": "Ljubljana"}, "output": "12 C, rain"}
CHAT: Any = {"model": "nano", "messages": WEATHER, "stream": True}


def with_output(
    gateway: Running, gate: Any, output: Any = OUTPUT, headers: Any = None, **more: Any
) -> list[dict[str, Any]]:
    """A whole answer whose tool output was submitted before the engine generated anything."""
    with streaming(gateway, CHAT | more, **headers or {}) as (id, data):
        assert submit(gateway, id, output) == 1
        gate.open()
        *chunks, done = data
    assert done == "[DONE]"
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
    gateway: Running, engine_client: openai.OpenAI, gate: Any, weather_tool: Any
) -> None:
    request_body = {"tools": [weather_tool], "stream_options": {"include_usage": True}}
    chunks = with_output(gateway, gate, **request_body)
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
    gateway: Running,
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
    with_output(gateway, gate, headers=headers, tools=[weather_tool], **fields)
    assert [request.priority for request in served] == [Priority.PROACTIVE] * 2


def test_a_limit_holds_for_all_turns(
    gateway: Running, engine_client: openai.OpenAI, runtime: LocalRuntime, hold: Any, weather_tool: Any
) -> None:
    first, _ = by_itself(engine_client, tools=[weather_tool])
    gate = hold(runtime)
    call_tokens = first.usage.completion_tokens
    chunks = with_output(gateway, gate, tools=[weather_tool], max_tokens=call_tokens + 3)
    assert deltas(chunks, "tool_results")
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert not any("usage" in chunk for chunk in chunks)  # it was not requested
    chunks = with_output(gateway, hold(runtime), tools=[weather_tool], max_completion_tokens=call_tokens)
    assert deltas(chunks, "tool_results") == []
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_an_engine_that_does_not_continue(
    gateway: Running, gate: Any, weather_tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client makes the call itself, as if there were no cache."""
    monkeypatch.setattr(ResumableRequest, "next_body", lambda *_: b"{}")  # which the engine refuses
    chunks = with_output(gateway, gate, tools=[weather_tool], stream_options={"include_usage": True})
    assert deltas(chunks, "tool_results") == []
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["completion_tokens"] > 0


def test_ids_belong_to_their_app(start: Start, engine: Running, gate: Any, weather_tool: Any) -> None:
    gateway = start(engine.url, tokens=TOKENS)
    with streaming(gateway, CHAT | {"tools": [weather_tool]}, **MAIL) as (id, data):
        path = f"{gateway.url}/cache-tool-output/{id}"
        refused = httpx.post(path, json=[OUTPUT], headers=NOTES)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "response_not_found")
        predicted = {name: value for name, value in OUTPUT.items() if name != "output"}
        assert httpx.post(f"{path}0", json=[predicted], headers=MAIL).json() == {"cached": 0}
        assert httpx.post(path, json=[OUTPUT]).status_code == 401
        assert httpx.post(path, json=[OUTPUT], headers=MAIL).json() == {"cached": 1}
        gate.open()
        assert deltas(list(data)[:-1], "tool_results")
    assert httpx.post(path, json=[OUTPUT], headers=MAIL).json() == {"cached": 0}


@pytest.mark.parametrize("answered", [False, True])
def test_a_client_that_disconnects_is_disconnected_from_the_engine(
    gateway: Running, engine: Running, runtime: LocalRuntime, gate: Any, weather_tool: Any, answered: bool
) -> None:
    cancelled = runtime.statistics().engine.cancelled
    body = CHAT | {"tools": [weather_tool], "ignore_eos": not answered}
    with streaming(gateway, body) as (id, data):
        gate.arrived()
        if answered:
            submit(gateway, id, OUTPUT)
            gate.allow(10**4)
            next(chunk for chunk in data if deltas([chunk], "tool_results"))
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
        whole = client.chat.completions.create(model="nano", messages=HELLO)  # type: ignore[arg-type]
        said = client.responses.create(model="nano", input="Hello!").output_text
        assert said == whole.choices[0].message.content
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
