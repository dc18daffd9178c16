"""Responses through the official client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import LocalRuntime
from tests.runtime.serving.server.conftest import HELLO

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"type": "function", "name": "get_weather", "description": "Current weather.", "parameters": CITY}
SHORT: Any = {"model": "nano", "input": "Hello!", "temperature": 0, "max_output_tokens": 40}
REQUEST: Any = SHORT | {
    "input": "What is the weather in Ljubljana?",
    "tools": [TOOL],
    "max_output_tokens": 80,
}
CALLS: Any = [
    {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call", "call_id": "b", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "12 C"},
]


def test_an_answer_is_that_of_the_runtime(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    expected = runtime.generate(HELLO, max_tokens=40)
    response = client.responses.create(**SHORT)
    assert (response.status, response.output_text) == ("completed", expected.text)
    assert response.usage is not None
    assert response.usage.input_tokens == expected.usage.prompt_tokens
    assert response.usage.output_tokens == expected.usage.completion_tokens
    assert response.model_dump()["store"] is True


def test_an_answer_that_is_cut(client: openai.OpenAI) -> None:
    response = client.responses.create(**SHORT | {"max_output_tokens": 5})
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_a_stream_has_an_event_for_each_step(client: openai.OpenAI) -> None:
    whole = client.responses.create(**SHORT)
    events: list[Any] = list(client.responses.create(**SHORT, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert "".join(event.delta for event in events[4:-4]) == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage == whole.usage
    assert events[0].response.id == events[-1].response.id


def test_a_call_whole_and_streamed(client: openai.OpenAI) -> None:
    response: Any = client.responses.create(**REQUEST)
    (call,) = response.output
    assert (call.type, call.name, call.status) == ("function_call", "get_weather", "completed")
    assert json.loads(call.arguments) == {"city": "Ljubljana"}

    events: list[Any] = list(client.responses.create(**REQUEST, stream=True))
    written = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert len(written) > 1
    assert json.loads("".join(written)) == {"city": "Ljubljana"}
    (done,) = [event for event in events if event.type == "response.output_item.done"]
    assert (done.item.arguments, done.item.name) == ("".join(written), "get_weather")


def test_input_items_become_chat_messages(client: openai.OpenAI, runtime: LocalRuntime) -> None:
    messages = [
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Who are you?"},
    ]
    expected = runtime.generate(messages, max_tokens=20)
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello!"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
        {"type": "message", "role": "user", "content": "Who are you?"},
    ]
    options = {"input": items, "instructions": "You are brief.", "max_output_tokens": 20}
    response = client.responses.create(**SHORT | options)
    assert response.output_text == expected.text
    assert response.usage is not None
    assert response.usage.input_tokens == expected.usage.prompt_tokens


def test_an_answer_held_to_a_schema(client: openai.OpenAI) -> None:
    schema = TOOL["parameters"] | {"properties": {"city": {"enum": ["a"]}}, "additionalProperties": False}
    wanted: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    response = client.responses.create(**SHORT, text=wanted)
    assert json.loads(response.output_text) == {"city": "a"}


def test_logprobs(client: openai.OpenAI) -> None:
    body = SHORT | {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    response: Any = client.responses.create(**body)
    logprobs = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in logprobs).startswith(response.output_text)
    streamed: list[Any] = []
    for event in client.responses.create(**body, stream=True):
        if event.type == "response.output_text.delta":
            streamed += event.logprobs
    assert [entry.logprob for entry in streamed] == [entry.logprob for entry in logprobs][: len(streamed)]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": []}, "input"),
        ({"input": " "}, "input"),
        ({"input": "word " * 20_000}, "input"),
        ({"instructions": "word " * 20_000}, "input"),
        ({"input": 3}, "input"),
        ({"input": [{"type": "image_generation_call"}]}, "input[0]"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [*CALLS, {"role": "wizard", "content": "x"}], "instructions": "Help."}, "input[3].role"),
        ({"input": [*CALLS, {**CALLS[1], "name": ""}]}, "input[3].name"),
        ({"input": [{**CALLS[0], "arguments": "{"}]}, "input[0].arguments"),
        ({"input": [*CALLS, {**CALLS[1], "arguments": "[]"}]}, "input[3].arguments"),
        ({"input": [*CALLS, {**CALLS[1], "call_id": 7}]}, "input[3].call_id"),
        ({"input": [*CALLS, {**CALLS[2], "output": None}]}, "input[3].output"),
        ({"input": [*CALLS, {**CALLS[2], "call_id": 7}]}, "input[3].call_id"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 1 << 20, "include": ["message.output_text.logprobs"]}, "include"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "schema": {"type": "bogus"}}}}, "text.format"),
        ({"tools": [TOOL | {"name": ""}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tool_choice": {"type": "function", "name": "x"}, "tools": [TOOL]}, "tool_choice"),
    ],
)
def test_invalid_requests(http: httpx.Client, change: dict[str, Any], param: str) -> None:
    for stream in (False, True):
        response = http.post("/v1/responses", json=SHORT | {"stream": stream} | change)
        assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def test_a_wrong_item_is_named_also_where_it_continues_a_response(client: openai.OpenAI) -> None:
    first = client.responses.create(**SHORT | {"max_output_tokens": 2})
    wrong: Any = [
        {"role": "user", "content": "And?"},
        {"type": "function_call", "name": "a", "arguments": "["},
    ]
    for more in ({}, {"instructions": "Be brief."}):
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(**SHORT | {"input": wrong}, previous_response_id=first.id, **more)
        assert caught.value.param == "input[1].arguments"


def test_the_refusal_of_a_conversation_says_what_to_send(http: httpx.Client) -> None:
    error = http.post("/v1/responses", json=SHORT | {"conversation": "x_1"}).json()["error"]
    assert error["message"].endswith("none here. Send previous_response_id, or the whole conversation.")
