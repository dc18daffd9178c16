"""Answers held to ``response_format``, ``tool_choice`` and a call format of another package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentrt.calls import ToolCallFormat, find_tool_call_format
from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.tokenizer import Tokenizer
from tests.agentrt.calls.installed import ACME, InstallFormat
from tests.runtime.conftest import OpenRuntime

SCHEMA = "response_format.json_schema"
HELLO = [{"role": "user", "content": "Hello!"}]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_an_answer_follows_its_schema(runtime: LocalRuntime, temperature: float) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"],
        "additionalProperties": False,
    }
    response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for seed in range(4):
        generation = runtime.generate(
            HELLO, response_format=response_format, max_tokens=64, temperature=temperature, seed=seed
        )
        answer = json.loads(generation.text)
        assert generation.finish_reason == "stop"
        assert isinstance(answer["ok"], bool)
        assert 1 <= answer["n"] <= 9


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
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, SCHEMA),
        *(
            (
                {"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": value}}}},
                f"{SCHEMA}.schema",
            )
            for value in (10**400, 10**5000, float("nan"), object(), "\ud800")
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "maybe", "tools": True}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}, "tools": True}, "tool_choice"),
        ({"tool_choice": {"type": "function"}, "tools": True}, "tool_choice"),
        ({"parallel_tool_calls": "yes"}, "parallel_tool_calls"),
    ],
)
def test_invalid_formats_and_choices_are_refused(
    runtime: LocalRuntime, weather_tool: dict[str, Any], options: dict[str, Any], field: str
) -> None:
    if "tools" in options:
        options = {**options, "tools": [weather_tool]}
    with pytest.raises(InvalidRequestError) as raised:
        runtime.generate(HELLO, max_tokens=1, **options)
    assert raised.value.field == field


@pytest.fixture
def acme(install_format: InstallFormat) -> ToolCallFormat:
    install_format(ACME.replace('("acme",)', '("nano",)').replace("tools>", "|im_start|>"))
    return find_tool_call_format("acme")


def test_its_tags_are_text_even_where_they_are_special_tokens(
    acme: ToolCallFormat, nano_directory: ModelDirectory, tokenizer: Tokenizer
) -> None:
    tokens = tokenizer.encode("<|im_start|>")
    assert tokenizer.decode(tokens) == ""
    assert Tokenizer(nano_directory, 2048).decode(tokens) == acme.opening_tag


def test_a_runtime_detects_forces_and_reads_its_calls(
    install_format: InstallFormat, open_runtime: OpenRuntime, weather_tool: dict[str, Any]
) -> None:
    install_format(ACME.replace('("acme",)', '("nano",)'))
    runtime = open_runtime()
    assert runtime.call_format is find_tool_call_format("acme")
    assert runtime.constrains_calls
    messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
    generation = runtime.generate(messages, tools=[weather_tool], tool_choice="required", max_tokens=60)
    assert [call.name for call in generation.tool_calls] == ["get_weather"]
