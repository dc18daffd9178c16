"""Real models call tools: of themselves, because they must, one at a time, and go on after the output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentrt.calls import ToolCallFormat
from agentrt.runtime import LocalRuntime

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather forecast of a city for some days.",
        "parameters": SCHEMA,
    },
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Get the time of day in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"],
        },
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Oslo in the next 3 days?"}]
OPTIONS: dict[str, Any] = {"max_tokens": 200, "temperature": 0}


def test_a_tool_is_called_and_its_output_read(runtime: LocalRuntime) -> None:
    trained = runtime.call_format is not ToolCallFormat.JSON_MESSAGE
    # A model that was not trained to call tools calls one when it must, with any arguments.
    choice = "auto" if trained else {"type": "function", "function": {"name": "get_weather"}}
    answer = runtime.generate(QUESTION, tools=[WEATHER, TIME], tool_choice=choice, **OPTIONS)
    [call] = answer.tool_calls
    assert answer.finish_reason == "tool_calls"
    assert call.name == "get_weather"
    assert not trained or dict(call.arguments) == {"city": "Oslo", "days": 3}
    arguments = json.dumps(dict(call.arguments))
    called = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    history = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": call.id, "content": "Rain on all days, 7 degrees."},
    ]
    after = runtime.generate(history, tools=[WEATHER, TIME], tool_choice="none", **OPTIONS)
    assert not after.tool_calls
    assert after.text.strip()


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_required_tool_is_called(runtime: LocalRuntime, choice: object) -> None:
    answer = runtime.generate(
        QUESTION, tools=[WEATHER, TIME], tool_choice=choice, parallel_tool_calls=False, **OPTIONS
    )
    [call] = answer.tool_calls
    assert call.name in ("get_weather", "get_time") if choice == "required" else call.name == "get_weather"
    assert set(call.arguments) == ({"city", "days"} if call.name == "get_weather" else {"city"})


def test_only_one_tool_is_called_if_several_are_not_allowed(runtime: LocalRuntime) -> None:
    question = [{"role": "user", "content": "What is the weather in Oslo, in Rome and in Paris for 2 days?"}]
    answer = runtime.generate(question, tools=[WEATHER], parallel_tool_calls=False, **OPTIONS)
    assert len(answer.tool_calls) <= 1


def test_tools_and_a_response_format_go_together(runtime: LocalRuntime) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    answer = runtime.generate(
        [{"role": "user", "content": 'Say {"ok": true} and call no tool.'}],
        tools=[WEATHER],
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        **OPTIONS,
    )
    assert answer.tool_calls or answer.text.startswith('{"ok": ')


def test_what_is_asked_for_in_prose_is_answered_in_prose(runtime: LocalRuntime) -> None:
    answer = runtime.generate(QUESTION, tools=[WEATHER], tool_choice="none", **OPTIONS)
    assert not answer.tool_calls
    assert answer.text.strip()
