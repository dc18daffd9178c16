"""A tool-call format of another package, in the runtime: detected, held to a grammar, and parsed."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.calls import ToolCallFormat, find_tool_call_format
from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.tokenizer import Tokenizer
from tests.agentrt.calls.installed import ACME, InstallFormat
from tests.runtime.conftest import OpenRuntime


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
