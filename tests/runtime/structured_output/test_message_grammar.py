"""Calls without an opening token: a whole message of JSON, held to the tools once it is certain to be one."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.calls import (
    CallFinished,
    CallStarted,
    MessageParser,
    ParserEvent,
    TextDelta,
    ToolCallFormat,
    ToolDefinitions,
)
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
        (f"```\n{CALL}```", f"```\n{CALL}"),
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
    st.sampled_from(["search", "set.light", "delete", 'se"arch', "Search", "serch"]),
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


HEADS = [
    f'{before}{{"name": "{name}", "arguments": {{"{key}":'
    for before in ("", "[", "{", "```json\n", "```\n[", "```\n{")
    for name, key in (("search", "query"), ("set.light", "state"))
]
MARKS = (*b'"}]`,\n', END)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(HEADS), st.randoms(use_true_random=False), st.sampled_from([AUTO, SINGLE]))
def test_what_the_grammar_allows_is_read_as_calls_and_nothing_else(
    manager: StructuredOutputManager, head: str, random: Random, choice: ToolChoice
) -> None:
    matcher = manager.matcher(choice, None)
    assert matcher is not None
    written = bytearray()
    for token in head.encode():
        matcher.accept_token(token)
        written.append(token)
    while len(written) < 400:
        allowed = np.flatnonzero(np.isfinite(matcher.mask_logits(np.zeros(257, np.float32)))).tolist()
        marks = [token for token in allowed if token in MARKS]
        token = random.choice(marks if marks and random.random() < 0.5 else allowed)
        if token == END:
            break
        matcher.accept_token(token)
        written.append(token)
    text, cut = written.decode(errors="ignore"), token != END

    def read(pieces: Iterable[str], held: Collection[ToolCallFormat]) -> list[ParserEvent]:
        tools = ToolDefinitions(TOOLS)
        parser = MessageParser(ToolCallFormat.HERMES, tools, held_to_grammar=held, parallel=choice.parallel)
        return [event for piece in pieces for event in parser.feed(piece)] + parser.close(cut=cut)

    streamed = read(text, manager.held_formats(choice, None))
    assert not any(isinstance(event, TextDelta) for event in streamed)
    calls, whole = (
        [event.call for event in events if isinstance(event, CallFinished)]
        for events in (streamed, read([text], ()))
    )
    assert calls == whole
    assert cut or calls


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
