from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.structured_output.manager import StructuredOutputManager
from agentrt.runtime.structured_output.tool_choice import ToolChoice


def tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TOOLS = [
    tool("search_notes", {"query": {"type": "string"}, "limit": {"type": "integer"}}, ["query"]),
    tool("set.light", {"state": {"enum": ["on", "off"]}}, ["state"]),
]


def test_unsupported_schemas_are_refused(manager: StructuredOutputManager) -> None:
    broken = {"type": "no such type"}
    message = "tools: property 'x' of tool 'broken' cannot be followed: Invalid type: no such type. Correct"
    with pytest.raises(InvalidRequestError, match=message):
        manager.matcher(ToolChoice([*TOOLS, tool("broken", {"y": {}, "x": broken}, ["x"])]))
    with pytest.raises(InvalidRequestError, match="response_format: its schema cannot be followed") as raised:
        manager.matcher(None, broken)
    assert "tool" not in str(raised.value)


LOOK_AHEAD = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?!a)b"}}}


def test_the_error_of_a_schema_has_the_whole_reason(manager: StructuredOutputManager) -> None:
    reason = r"the pattern \(\?!a\)b cannot be used: look-around, .* is not supported\. Correct"
    with pytest.raises(InvalidRequestError, match=f"property 'x' of its schema cannot be followed: {reason}"):
        manager.matcher(None, LOOK_AHEAD)


@pytest.mark.parametrize("required", [True, False])
def test_calls_without_an_opening_token_name_the_tool_in_errors(required: bool) -> None:
    vocabulary = [bytes([value]) for value in range(256)]
    manager = StructuredOutputManager(ToolCallFormat.JSON_MESSAGE, [*vocabulary, b""], {256})
    tools = [*TOOLS, tool("broken", LOOK_AHEAD["properties"], [])]
    schema = None if required else {"type": "object"}
    with pytest.raises(InvalidRequestError, match="tools: property 'x' of tool 'broken'"):
        manager.matcher(ToolChoice(tools, required=required), schema)


def test_an_error_outside_the_properties_names_the_tool(manager: StructuredOutputManager) -> None:
    with pytest.raises(InvalidRequestError, match=r"tools: tool 'wants' cannot be followed: .*'z'"):
        manager.matcher(ToolChoice([tool("wants", {"x": {"type": "string"}}, ["z"])]))


@pytest.mark.parametrize(("vocabulary", "constrain"), [(None, True), ([b"a", b"b"], False)])
def test_calls_that_no_grammar_holds_cannot_be_required(
    vocabulary: list[bytes] | None, constrain: bool
) -> None:
    manager = StructuredOutputManager(ToolCallFormat.HERMES, vocabulary, {1}, constrain_calls=constrain)
    assert manager.call_token is None
    assert manager.matcher(ToolChoice(TOOLS)) is None
    for choice in (ToolChoice(TOOLS, required=True), ToolChoice(TOOLS, parallel=False)):
        with pytest.raises(InvalidRequestError):
            manager.matcher(choice)


@pytest.mark.parametrize("temperature", [0.0, 5.0])
def test_a_runtime_calls_only_tools_that_exist(
    open_runtime: Callable[..., LocalRuntime], temperature: float
) -> None:
    runtime = open_runtime()
    messages = [{"role": "user", "content": "Find my notes about lasagne"}]
    for seed in range(8):
        generation = runtime.generate(
            messages, tools=TOOLS, max_tokens=60, temperature=temperature, seed=seed
        )
        assert {made.name for made in generation.tool_calls} <= {"search_notes", "set.light"}
        for made in generation.tool_calls:
            assert set(made.arguments) <= {"query", "limit", "state"}
