"""Which schemas are refused, and in which words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.structured_output.manager import StructuredOutputManager
from agentrt.runtime.structured_output.tool_choice import ToolChoice
from tests.runtime.structured_output.conftest import TOOLS, tool


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


INTERNAL = re.compile(
    r"coerce|f64|Unimplemented|registry|min=|Regex|grammar\)|lexer|parser|Bias|while processing"
)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "a value may match two schemas of a oneOf"),
        (
            {"$defs": {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, "$ref": "#/$defs/a"},
            "a value may match two schemas of a oneOf",
        ),
        ({"not": {"type": "string"}}, '"not" is not supported here'),
        ({"multipleOf": "a"}, 'multipleOf is "a", and must be a number'),
        ({"type": "number", "maximum": 1e308}, "a bound of its numbers is too large or too exact"),
        ({"type": "number", "minimum": 5e-324}, "the pattern (((0"),
        ({"$ref": "http://example.com/a"}, "$ref names http://example.com/a, and nothing is fetched"),
        ({"$ref": "#/nope"}, "$ref names #/nope, which is not there"),
        ({"type": "string", "pattern": "^a$", "minLength": 2}, "no text satisfies its pattern"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no value satisfies it: minimum (3)"),
        ({"patternProperties": {"a": {}, "b": {}}}, "a name may match two patternProperties, /a/ and /b/"),
        ({"type": "string", "pattern": r"\bfoo"}, r"the pattern \bfoo has a word boundary"),
        ({"type": "string", "pattern": "[a"}, "the pattern [a cannot be used: unclosed character class"),
        (
            {"anyOf": [{"type": "integer", "minimum": n, "maximum": n * n + 10**9} for n in range(3000)]},
            "it takes too much work",
        ),
    ],
)
def test_a_reason_has_the_words_of_json_schema(
    manager: StructuredOutputManager, schema: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        manager.matcher(None, schema)
    message = str(raised.value)
    assert reason in message
    assert not INTERNAL.search(message)
    assert len(message) < 500


def test_an_answer_that_no_value_can_be(runtime: LocalRuntime) -> None:
    schema = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(InvalidRequestError, match=r"\(no value satisfies it\)"):
        runtime.generate([{"role": "user", "content": "Go"}], response_format=wanted, max_tokens=8)


def test_an_answer_that_takes_too_much_work(
    manager: StructuredOutputManager, capfd: pytest.CaptureFixture[str]
) -> None:
    patterns = [{"type": "string", "pattern": f"^(.*a){{{number}}}.*b"} for number in range(400)]
    matcher = manager.matcher(None, {"anyOf": patterns})
    while not matcher.must_end:
        allowed = matcher.mask_logits(np.zeros(matcher._vocabulary_size, np.float32))
        matcher.accept_token(int(allowed.argmax()))
    assert matcher.error == "it takes too much work"
    assert capfd.readouterr() == ("", "")  # a server's log would have lines for the schemas of its clients
