"""Chat completions through the official client."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import LocalRuntime
from agentrt.runtime.request.request import Request
from tests.runtime.serving.server.conftest import HELLO, WEATHER

SHORT: dict[str, Any] = {"model": "nano", "messages": HELLO, "temperature": 0, "max_tokens": 10}
CHAT = "/v1/chat/completions"
NAMED = {"type": "function", "function": {"name": "get_weather"}}
CALLED = {"role": "assistant", "content": None}


@pytest.fixture
def tools(weather_tool: dict[str, Any]) -> Any:
    notes = {
        "name": "search_notes",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    }
    return [weather_tool, {"type": "function", "function": notes}]


def test_an_answer_equals_that_of_the_runtime(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    expected = runtime.generate(HELLO, max_tokens=10)
    answer: Any = client.chat.completions.create(**SHORT)
    (choice,) = answer.choices
    assert (answer.object, answer.model, choice.index) == ("chat.completion", "nano", 0)
    assert (choice.message.role, choice.message.content) == ("assistant", expected.text)
    assert choice.finish_reason == expected.finish_reason
    prompt, completion = expected.usage.prompt_tokens, expected.usage.completion_tokens
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (prompt, completion)
    assert usage.total_tokens == prompt + completion
    assert usage.prompt_tokens_details.cached_tokens >= 0


def test_a_stream_is_the_same_answer_in_pieces(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**SHORT)
    chunks = list(
        client.chat.completions.create(**SHORT, stream=True, stream_options={"include_usage": True})
    )
    assert len({chunk.id for chunk in chunks}) == 1
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert (chunks[-1].choices, chunks[-1].usage) == ([], whole.usage)
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_stream_on_the_wire(http: httpx.Client) -> None:
    response = http.post(CHAT, json=SHORT | {"stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = response.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: ") for event in events[:-1])
    assert "usage" not in json.loads(events[0].removeprefix("data: "))


def test_a_call_whole_and_streamed(client: openai.OpenAI, tools: Any) -> None:
    body = SHORT | {"messages": WEATHER, "tools": tools, "max_tokens": 80}
    answer: Any = client.chat.completions.create(**body)
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    (call,) = choice.message.tool_calls
    assert (call.type, call.id[:5]) == ("function", "call_")
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Ljubljana"})

    deltas: list[Any] = []
    for chunk in client.chat.completions.create(**body, stream=True):
        deltas += chunk.choices[0].delta.tool_calls or ()
    assert (deltas[0].index, deltas[0].function.name, deltas[0].function.arguments) == (0, "get_weather", "")
    assert deltas[0].id.startswith("call_")
    assert all(delta.id is None and delta.function.name is None for delta in deltas[1:])
    assert len(deltas) > 2  # the arguments come in pieces
    assert json.loads("".join(delta.function.arguments for delta in deltas)) == {"city": "Ljubljana"}

    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature_c": 12}'}
    history: Any = [*WEATHER, choice.message.model_dump(exclude_none=True), result]
    answer = client.chat.completions.create(**body | {"messages": history})
    assert "12" in answer.choices[0].message.content


def test_a_call_that_is_cut_off_is_not_sent_twice(client: openai.OpenAI, tools: Any) -> None:
    body = SHORT | {"messages": WEATHER, "tools": tools, "tool_choice": NAMED, "max_tokens": 18}
    chunks = list(client.chat.completions.create(**body, stream=True))
    assert any(chunk.choices[0].delta.tool_calls for chunk in chunks)
    assert not any(chunk.choices[0].delta.content for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "length"
    (choice,) = client.chat.completions.create(**body | {"max_tokens": 8}).choices
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == ("", None, "length")


@pytest.mark.parametrize(
    ("choice", "reason"), [("required", "tool_calls"), (NAMED, "stop"), ("none", None), ("auto", None)]
)
def test_tool_choice(client: openai.OpenAI, tools: Any, choice: Any, reason: str | None) -> None:
    body = SHORT | {"tools": tools, "tool_choice": choice, "max_tokens": 80}
    (made,) = client.chat.completions.create(**body).choices
    calls = made.message.tool_calls or []
    assert bool(calls) is (reason is not None)
    if reason is not None:
        assert made.finish_reason == reason
    if choice == NAMED:
        assert [call.function.name for call in calls if call.type == "function"] == ["get_weather"]


SCHEMA = {"name": "x", "schema": {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}
SAMPLING = {"temperature": 2.0, "seed": 5, "top_p": 0.99, "top_k": 200, "min_p": 0.0001}
PENALTIES = {"frequency_penalty": 1.5, "presence_penalty": 0.5, "repetition_penalty": 1.1}


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        (PENALTIES | {"ignore_eos": True}, PENALTIES | {"ignore_eos": True}),
        ({"max_completion_tokens": 4, "max_tokens": 90}, {"max_tokens": 4}),
        (FORMAT, FORMAT),
        ({"stop": ["o", "e"]}, {"stop": ["o", "e"]}),
        (SAMPLING, SAMPLING),
        ({"logit_bias": {"5": -100, "9": 100}}, {"logit_bias": {5: -100, 9: 100}}),
    ],
)
def test_fields_are_options_of_the_runtime(
    http: httpx.Client,
    runtime: LocalRuntime,
    processed: list[Request],
    fields: dict[str, Any],
    options: dict[str, Any],
) -> None:
    expected = runtime.generate(HELLO, **{"max_tokens": 30, **options})
    (choice,) = http.post(CHAT, json=SHORT | {"max_tokens": 30} | fields).json()["choices"]
    found = choice["message"]["content"], choice["finish_reason"]
    assert found == (expected.text, expected.finish_reason)
    one, other = ((each.sampling_params, each.end_tokens, each.max_total_tokens) for each in processed)
    assert one == other
    assert choice["message"]["content"] != runtime.generate(HELLO, max_tokens=30).text or "seed" in fields


@pytest.mark.parametrize("streamed", [False, True])
def test_several_choices(client: openai.OpenAI, streamed: bool) -> None:
    body = SHORT | {"temperature": 2, "seed": 5, "n": 3}
    alone = [
        client.chat.completions.create(**SHORT | {"temperature": 2, "seed": seed}).choices[0].message.content
        for seed in (5, 6, 7)
    ]
    if streamed:
        texts = {0: "", 1: "", 2: ""}
        for chunk in client.chat.completions.create(**body, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        assert list(texts.values()) == alone
    else:
        answer: Any = client.chat.completions.create(**body)
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        assert [choice.message.content for choice in answer.choices] == alone
        assert answer.usage.completion_tokens > 10


@pytest.mark.parametrize("streamed", [False, True])
def test_logprobs(client: openai.OpenAI, streamed: bool) -> None:
    body = SHORT | {"logprobs": True, "top_logprobs": 2}
    content: list[Any] = []
    if streamed:
        text = ""
        for chunk in client.chat.completions.create(**body, stream=True):
            text += chunk.choices[0].delta.content or ""
            if chunk.choices[0].logprobs is not None:
                content += chunk.choices[0].logprobs.content or ()
    else:
        answer: Any = client.chat.completions.create(**body)
        (choice,) = answer.choices
        text, content = choice.message.content, choice.logprobs.content
    assert len(content) == 10
    assert b"".join(bytes(entry.bytes) for entry in content).decode("utf-8", "ignore") == text
    assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in content)


def test_concurrent_requests_get_the_same_answer(client: openai.OpenAI) -> None:
    alone = client.chat.completions.create(**SHORT).choices[0].message.content
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: client.chat.completions.create(**SHORT), range(16)))
    assert {answer.choices[0].message.content for answer in answers} == {alone}


def test_a_prediction_is_counted_and_changes_no_token(client: openai.OpenAI) -> None:
    plain = client.chat.completions.create(**SHORT)
    assert plain.usage.completion_tokens_details.accepted_prediction_tokens == 0
    text = plain.choices[0].message.content
    prediction = {"type": "content", "content": [{"type": "text", "text": f"{text} and more"}]}
    answer = client.chat.completions.create(**SHORT, prediction=prediction, n=2)
    assert [choice.message.content for choice in answer.choices] == [text, text]
    details = answer.usage.completion_tokens_details
    assert details.accepted_prediction_tokens > 0
    assert details.rejected_prediction_tokens > 0
    empty = client.chat.completions.create(**SHORT, prediction={"type": "content", "content": ""})
    assert empty.choices[0].message.content == text
    assert empty.usage.completion_tokens_details.rejected_prediction_tokens == 0


@pytest.fixture
def body(weather_tool: dict[str, Any]) -> dict[str, Any]:
    return SHORT | {"messages": WEATHER, "functions": [weather_tool["function"]], "max_tokens": 80}


def test_a_function_call_whole_and_streamed(client: openai.OpenAI, body: dict[str, Any]) -> None:
    answer: Any = client.chat.completions.create(**body)
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("function_call", None)
    assert choice.message.tool_calls is None
    assert choice.message.function_call.name == "get_weather"
    assert json.loads(choice.message.function_call.arguments) == {"city": "Ljubljana"}

    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**body, stream=True)]
    deltas = [chunk.delta.function_call for chunk in chunks if chunk.delta.function_call is not None]
    assert [delta.name for delta in deltas][:2] == ["get_weather", None]
    assert json.loads("".join(delta.arguments or "" for delta in deltas)) == {"city": "Ljubljana"}
    assert all(chunk.delta.tool_calls is None for chunk in chunks)
    assert chunks[-1].finish_reason == "function_call"


def test_the_history_is_that_of_tools(
    http: httpx.Client, body: dict[str, Any], weather_tool: dict[str, Any]
) -> None:
    call = {"name": "get_weather", "arguments": '{"city": "Ljubljana"}'}
    output = {"name": "get_weather", "content": '{"temperature_c": 12}'}
    older = [*WEATHER, CALLED | {"function_call": call}, {"role": "function", **output}]
    calls = [{"id": "call_1", "type": "function", "function": call}]
    newer = [*WEATHER, CALLED | {"tool_calls": calls}, {"role": "tool", "tool_call_id": "call_1", **output}]
    tools = {"messages": newer, "tools": [weather_tool], "functions": None}
    one, other = (http.post(CHAT, json=body | each).json() for each in ({"messages": older}, tools))
    assert "12" in one["choices"][0]["message"]["content"]
    assert one["choices"] == other["choices"]
    assert one["usage"]["prompt_tokens"] == other["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("call", "reason"), [("none", None), ("auto", "function_call"), ({"name": "get_weather"}, "stop")]
)
def test_function_call(client: openai.OpenAI, body: dict[str, Any], call: Any, reason: str | None) -> None:
    (choice,) = client.chat.completions.create(**body, function_call=call).choices
    assert (choice.message.function_call is not None) is (reason is not None)
    if reason is not None:
        assert choice.finish_reason == reason


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HELLO}),
        ("/v1/messages", {"model": "nano", "messages": HELLO, "max_tokens": 4}),
        ("/v1/responses", {"input": "Hello!", "max_output_tokens": 4}),
    ],
)
def test_seconds_of_tools_are_those_of_the_runtime(
    http: httpx.Client, processed: list[Any], path: str, body: dict[str, Any]
) -> None:
    told = {"get_weather": 0.4, "build": 90}
    assert http.post(path, json=body | {"tool_seconds": told}).status_code == 200
    assert [request.tool_seconds for request in processed] == [told]
    assert http.post(path, json=body | {"tool_seconds": {"build": -1}}).status_code == 400
