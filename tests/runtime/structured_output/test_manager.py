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
    with pytest.raises(InvalidRequestError, match=r"tools: cannot be followed.*plain JSON schema"):
        manager.matcher(ToolChoice([tool("broken", {"x": broken}, [])]))
    with pytest.raises(InvalidRequestError, match=r"response_format: cannot be followed"):
        manager.matcher(None, broken)


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
