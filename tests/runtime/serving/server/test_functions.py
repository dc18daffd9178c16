"""``functions`` and ``function_call``, as programs send them that are older than tools."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from tests.runtime.serving.server.conftest import WEATHER


@pytest.fixture
def functions(weather_tool: dict[str, Any]) -> list[Any]:
    return [weather_tool["function"]]


@pytest.fixture
def body(functions: list[Any]) -> dict[str, Any]:
    return {"model": "nano", "messages": WEATHER, "functions": functions, "temperature": 0, "max_tokens": 80}


def test_a_call_whole_and_streamed(client: openai.OpenAI, body: dict[str, Any]) -> None:
    (choice,) = client.chat.completions.create(**body).choices
    assert (choice.finish_reason, choice.message.content) == ("function_call", None)
    assert choice.message.tool_calls is None
    assert choice.message.function_call is not None
    assert choice.message.function_call.name == "get_weather"
    assert json.loads(choice.message.function_call.arguments) == {"city": "Ljubljana"}

    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**body, stream=True)]
    deltas = [chunk.delta.function_call for chunk in chunks if chunk.delta.function_call is not None]
    assert [delta.name for delta in deltas][:2] == ["get_weather", None]
    assert json.loads("".join(delta.arguments or "" for delta in deltas)) == {"city": "Ljubljana"}
    assert all(chunk.delta.tool_calls is None for chunk in chunks)
    assert chunks[-1].finish_reason == "function_call"


def test_a_call_and_its_output_in_the_history(client: openai.OpenAI, body: dict[str, Any]) -> None:
    message = client.chat.completions.create(**body).choices[0].message
    output = {"role": "function", "name": "get_weather", "content": '{"temperature_c": 12}'}
    history: Any = [*WEATHER, message.model_dump(exclude_none=True), output]
    answer = client.chat.completions.create(**body | {"messages": history})
    assert "12" in (answer.choices[0].message.content or "")


def test_the_history_is_that_of_tools(
    http: httpx.Client, body: dict[str, Any], weather_tool: dict[str, Any]
) -> None:
    call = {"name": "get_weather", "arguments": '{"city": "Ljubljana"}'}
    output = {"name": "get_weather", "content": '{"temperature_c": 12}'}
    older = [
        *WEATHER,
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", **output},
    ]
    tool_call = {"id": "call_1", "type": "function", "function": call}
    newer = [
        *WEATHER,
        {"role": "assistant", "content": None, "tool_calls": [tool_call]},
        {"role": "tool", "tool_call_id": "call_1", **output},
    ]
    tools = {**body, "messages": newer, "tools": [weather_tool]}
    del tools["functions"]
    one, other = (
        http.post("/v1/chat/completions", json=each).json() for each in ({**body, "messages": older}, tools)
    )
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
    ("change", "param"),
    [
        ({"tools": []}, "functions"),
        ({"functions": "get_weather"}, "functions"),
        ({"functions": [{"name": ""}]}, "functions[0].name"),
        ({"functions": [{"name": "a"}, {"name": "a"}]}, "functions[1].name"),
        ({"functions": [{"name": "a", "parameters": 7}]}, "functions[0].parameters"),
        ({"function_call": {"name": "no_such_function"}}, "function_call"),
        (
            {"messages": [{"role": "assistant", "function_call": {"name": ""}}]},
            "messages[0].function_call.name",
        ),
        ({"messages": [{"role": "assistant", "function_call": 7}]}, "messages[0].function_call"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]},
            "messages[0].tool_calls[0]",
        ),
        ({"function_call": 7}, "function_call"),
    ],
)
def test_what_is_refused_is_named(
    http: httpx.Client, body: dict[str, Any], change: dict[str, Any], param: str
) -> None:
    response = http.post("/v1/chat/completions", json=body | change)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
