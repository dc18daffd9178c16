"""Calls without an opening token: a whole message of JSON, held to the tools once it is certain to be one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.calls import CallStarted, MessageParser, ToolCallFormat, ToolDefinitions
from agentrt.calls.json_formats import JSON_MESSAGE
from agentrt.runtime.structured_output.manager import StructuredOutputManager
from agentrt.runtime.structured_output.tool_choice import ToolChoice
from tests.runtime.structured_output.conftest import TOOLS

BYTES = [bytes([value]) for value in range(256)]
END = 256


CALL = '{"name": "search", "arguments": {"query": "x", "limit": 3}}'
LIGHT = '{"name": "set.light", "arguments": {"state": "off"}}'
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
AUTO, SINGLE = ToolChoice(TOOLS), ToolChoice(TOOLS, parallel=False)
REQUIRED = ToolChoice(TOOLS, required=True)


@pytest.fixture(scope="module", params=["json_message", "pythonic", "hermes"])
def manager(request: pytest.FixtureRequest) -> StructuredOutputManager:
    format = getattr(ToolCallFormat, request.param.upper())
    return StructuredOutputManager(format, [*BYTES, b""], {END})  # no token for an opening tag


def follow(
    manager: StructuredOutputManager, text: str, choice: ToolChoice, schema: dict[str, Any] | None = None
) -> str | None:
    """Return how far ``text`` can be written, or None if it may be the whole answer."""
    matcher = manager.matcher(choice, schema)
    for position, token in enumerate([*text.encode(), END]):
        if matcher.active and not np.isfinite(matcher.mask_logits(np.zeros(257, np.float32))[token]):
            return text[:position]
        matcher.accept_token(token)
    return None


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        '{"name": "Oslo", "country": "Norway"}',
        '{"name": "search", "description": "finds"}',
        "[1, 2]",
        f"The call is {CALL}",
        CALL,
        f"{CALL}\n",
        f"{{{CALL}}}",
        f"[{LIGHT}]",
        f"```json\n{LIGHT}\n```",
        '{ "name": "search",\n  "parameters": {"query": "x"}\n}',
        json.dumps(json.loads(CALL), indent=4),
        json.dumps(json.loads(CALL), separators=(",", ":")),
        f"```json\n{json.dumps([json.loads(LIGHT)], indent=2)}\n```",
    ],
)
@pytest.mark.parametrize("choice", [AUTO, SINGLE])
def test_free_answers_and_calls_in_any_style_are_allowed(
    manager: StructuredOutputManager, text: str, choice: ToolChoice
) -> None:
    assert follow(manager, text, choice) is None


@pytest.mark.parametrize(
    ("spaces", "allowed"), [("  ", " "), ("\n\n", "\n"), ("\n" + 40 * " ", "\n" + 32 * " ")]
)
def test_whitespace_in_arguments_is_bounded(
    manager: StructuredOutputManager, spaces: str, allowed: str
) -> None:
    begun = '{"name": "search", "arguments": {"query":'
    assert follow(manager, f"{begun}{spaces}", AUTO) == f"{begun}{allowed}"


@pytest.mark.parametrize("text", [f"{CALL}\n{LIGHT}", f"[{CALL}, {LIGHT}]", f"```\n{CALL}\n{LIGHT}\n```"])
def test_only_parallel_calls_may_be_several(manager: StructuredOutputManager, text: str) -> None:
    assert follow(manager, text, AUTO) is None
    assert follow(manager, text, SINGLE) is not None


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('{"name": "search", "arguments": {"place": "x"}}', '{"name": "search", "arguments": {"'),
        ('{"name": "search", "arguments": {"query": 3}}', '{"name": "search", "arguments": {"query": '),
        ('{"name": "search", "arguments": {}}', '{"name": "search", "arguments": {'),
        ('{{"name": "search", "arguments": {"query": 3}}}', '{{"name": "search", "arguments": {"query": '),
        (f"{{{CALL} ", f"{{{CALL}"),
        (f"{CALL} and so on", f"{CALL} "),
    ],
)
def test_an_answer_that_has_begun_like_a_call_is_held_to_one(
    manager: StructuredOutputManager, text: str, allowed: str
) -> None:
    assert follow(manager, text, AUTO) == allowed


_space = st.sampled_from(["", " ", "\n", "\t", "\r\n", 33 * " "])
_beginnings = st.tuples(
    st.sampled_from(["", "", "```json\n", "```\n", "```python\n", "```json", "\n", "<x>"]),
    st.sampled_from(["", "", "[", "[[", "{"]),
    *([_space] * 4),
    st.sampled_from(["search", "set.light", "delete", 'se"arch']),
    st.sampled_from(["arguments", "parameters", "args"]),
).map(lambda drawn: '{}{}{}{{{}"name"{}:{}"{}", "{}": {{"'.format(*drawn))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_beginnings)
def test_calls_are_reported_before_they_end_only_where_nothing_else_may_follow(
    manager: StructuredOutputManager, text: str
) -> None:
    matcher = manager.matcher(AUTO, None)
    assert matcher is not None
    parser = MessageParser(
        ToolCallFormat.HERMES, ToolDefinitions(TOOLS), held_to_grammar=manager.held_formats(AUTO, None)
    )
    for character in text:
        for token in character.encode():
            if matcher.active and not matcher.allows(token):
                return
            matcher.accept_token(token)
        if any(isinstance(event, CallStarted) for event in parser.feed(character)):
            assert matcher.active


def test_an_answer_that_may_be_json_is_not_held_to_calls(manager: StructuredOutputManager) -> None:
    assert JSON_MESSAGE in manager.held_formats(AUTO, None)
    assert JSON_MESSAGE in manager.held_formats(REQUIRED, SCHEMA)
    assert JSON_MESSAGE not in manager.held_formats(AUTO, SCHEMA)
    assert manager.held_formats(None, None) == ()


def test_a_required_call_is_forced_from_the_first_token(manager: StructuredOutputManager) -> None:
    assert follow(manager, "Hello", REQUIRED) == ""
    assert follow(manager, CALL, REQUIRED) is None
    assert follow(manager, f"{CALL}\n{LIGHT}", REQUIRED) is None
    assert follow(manager, f"{CALL}\n{LIGHT}", ToolChoice(TOOLS, required=True, parallel=False)) == CALL


def test_a_response_format_allows_its_json_or_calls(manager: StructuredOutputManager) -> None:
    assert follow(manager, json.dumps({"a": 3}), AUTO, SCHEMA) is None
    assert follow(manager, CALL, AUTO, SCHEMA) is None
    assert follow(manager, "Hello", AUTO, SCHEMA) == ""
    assert follow(manager, '{"b": 3}', AUTO, SCHEMA) == '{"'
