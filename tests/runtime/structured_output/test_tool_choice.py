from __future__ import annotations

from typing import Any

import pytest

from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime

HELLO = [{"role": "user", "content": "Hello!"}]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_required_call_is_made(runtime: LocalRuntime, weather_tool: dict[str, Any], choice: Any) -> None:
    generation = runtime.generate(HELLO, tools=[weather_tool], tool_choice=choice, max_tokens=60)
    assert [call.name for call in generation.tool_calls][:1] == ["get_weather"]
    assert set(generation.tool_calls[0].arguments) == {"city"}


def test_no_call_is_made_if_the_choice_is_none(runtime: LocalRuntime, weather_tool: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "What is the weather in Ljubljana?"}]
    assert runtime.generate(messages, tools=[weather_tool], max_tokens=60).tool_calls
    assert not runtime.generate(messages, tools=[weather_tool], tool_choice="none", max_tokens=60).tool_calls


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "maybe", "tools": True}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}, "tools": True}, "tool_choice"),
        ({"tool_choice": {"type": "function"}, "tools": True}, "tool_choice"),
        ({"parallel_tool_calls": "yes"}, "parallel_tool_calls"),
    ],
)
def test_invalid_choices_are_refused(
    runtime: LocalRuntime, weather_tool: dict[str, Any], options: dict[str, Any], field: str
) -> None:
    if "tools" in options:
        options = {**options, "tools": [weather_tool]}
    with pytest.raises(InvalidRequestError) as raised:
        runtime.generate(HELLO, max_tokens=1, **options)
    assert raised.value.field == field
