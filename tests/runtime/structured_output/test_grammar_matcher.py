from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.structured_output.grammar_matcher import GrammarMatcher
from agentrt.runtime.structured_output.manager import StructuredOutputManager
from agentrt.runtime.structured_output.tool_choice import ToolChoice
from tests.hypothesis_profiles import examples
from tests.runtime.structured_output.conftest import TOOLS

OPENING = "<tool_call>"


def constrained(manager: StructuredOutputManager, choice: ToolChoice) -> GrammarMatcher:
    matcher = manager.matcher(choice)
    return matcher


def follow(matcher: GrammarMatcher, tokenizer: Tokenizer, text: str) -> bool:
    """Whether every token of ``text`` is allowed at its position."""
    for token in tokenizer.encode(text):
        if matcher.active and not np.isfinite(matcher.mask_logits(np.zeros(2048, np.float32))[token]):
            return False
        matcher.accept_token(token)
    return True


def allowed_tokens(matcher: GrammarMatcher) -> set[int]:
    return set(np.flatnonzero(np.isfinite(matcher.mask_logits(np.zeros(2048, np.float32)))).tolist())


def call(name: str, arguments: str) -> str:
    return f'{OPENING}\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        call("search", '{"query": "roof (north) \\"2026\\" — naïve"}'),
        call("search", '{"query": "x", "limit": 3}'),
        call("set.light", '{"state": "off"}'),
        "Let me look.\n" + call("set.light", '{"state": "on"}') + "\n" + call("search", '{"query": ""}'),
        'No call: {"name": "nothing"} </tool_call>',
    ],
)
def test_valid_calls_and_any_text_around_them_are_allowed(
    manager: StructuredOutputManager, tokenizer: Tokenizer, text: str
) -> None:
    matcher = constrained(manager, ToolChoice(TOOLS))
    assert follow(matcher, tokenizer, text)
    assert not matcher.active


@pytest.mark.parametrize(
    "text",
    [
        call("searc", '{"query": "x"}'),
        call("search", "{}"),
        call("search", '{"query": 3}'),
        call("search", '{"query": "x", "place": "y"}'),
        call("set.light", '{"state": "dim"}'),
        f'{OPENING}\n{{"name": "set.light", "arguments": {{"state": "on"}}\n</tool_call>',
    ],
)
def test_invalid_calls_are_not_allowed(
    manager: StructuredOutputManager, tokenizer: Tokenizer, text: str
) -> None:
    assert not follow(constrained(manager, ToolChoice(TOOLS)), tokenizer, text)


@examples(25)
@given(st.integers(0, 2**32))
def test_a_finished_call_is_valid_whatever_the_logits(
    manager: StructuredOutputManager, tokenizer: Tokenizer, seed: int
) -> None:
    matcher, random = constrained(manager, ToolChoice(TOOLS)), np.random.default_rng(seed)
    tokens = tokenizer.encode(OPENING)
    matcher.accept_token(tokens[0])
    while matcher.active and len(tokens) < 120:
        # End strings often, so that most calls are finished.
        noise = random.normal(size=2048).astype(np.float32)
        noise[tokenizer.encode('"}}')] += 4
        tokens.append(int(matcher.mask_logits(noise).argmax()))
        matcher.accept_token(tokens[-1])
    if not matcher.active:
        text = tokenizer.decode(tokens).removeprefix(OPENING).removesuffix("</tool_call>")
        called = json.loads(text)
        assert called["name"] in {"search", "set.light"}
        assert set(called["arguments"]) <= {"query", "limit", "state"}


def test_a_required_call_comes_first(manager: StructuredOutputManager, tokenizer: Tokenizer) -> None:
    choice = ToolChoice(TOOLS, required=True)
    assert not follow(constrained(manager, choice), tokenizer, "Let me look.")
    assert follow(constrained(manager, choice), tokenizer, call("set.light", '{"state": "on"}'))


LIGHT = call("set.light", '{"state": "on"}')


@pytest.mark.parametrize("separator", ["", "\n"])
def test_only_whole_calls_follow_a_required_call(
    manager: StructuredOutputManager, tokenizer: Tokenizer, separator: str
) -> None:
    choice = ToolChoice(TOOLS, required=True)
    assert follow(constrained(manager, choice), tokenizer, separator.join(3 * [LIGHT]))
    for leaked in ("Done.", "\n", "</tool_call>", '{"name": "set.light", "arguments": {"state": "on"}}'):
        rest = f"{separator or chr(10)}{leaked}"
        assert not follow(constrained(manager, choice), tokenizer, LIGHT + rest)


def test_a_required_call_may_be_the_whole_answer(
    manager: StructuredOutputManager, tokenizer: Tokenizer
) -> None:
    matcher = constrained(manager, ToolChoice(TOOLS, required=True))
    line_break, opening = (tokenizer.encode(text)[0] for text in ("\n", OPENING))
    assert follow(matcher, tokenizer, LIGHT)
    assert allowed_tokens(matcher) == tokenizer.end_token_ids | {opening, line_break}
    matcher.accept_token(line_break)
    assert allowed_tokens(matcher) == tokenizer.end_token_ids | {opening}


def test_only_an_end_token_follows_the_only_call(
    manager: StructuredOutputManager, tokenizer: Tokenizer
) -> None:
    matcher = constrained(manager, ToolChoice(TOOLS, parallel=False))
    assert follow(matcher, tokenizer, "Let me look. " + call("set.light", '{"state": "on"}'))
    assert allowed_tokens(matcher) == tokenizer.end_token_ids


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["n", "ok"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('{"n": 3, "ok": true}', True),
        ('{"n":3,\n  "ok":false}', False),
        ('{"n": "3"', False),
        ("Sure: {", False),
        ('{"n": 3, "ok": true} And', False),
        (call("set.light", '{"state": "on"}') + call("search", '{"query": ""}'), True),
        (call("set.light", '{"state": "on"}') + '{"n": 3, "ok": true}', False),
    ],
)
def test_an_answer_is_json_of_its_schema_or_calls(
    manager: StructuredOutputManager, tokenizer: Tokenizer, text: str, allowed: bool
) -> None:
    matcher = manager.matcher(ToolChoice(TOOLS), SCHEMA)
    assert follow(matcher, tokenizer, text) is allowed


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_a_tool_without_parameters_takes_no_arguments(
    manager: StructuredOutputManager, tokenizer: Tokenizer, parameters: dict[str, Any] | None
) -> None:
    now: dict[str, Any] = {"name": "now"} if parameters is None else {"name": "now", "parameters": parameters}
    choice = ToolChoice([{"type": "function", "function": now}], required=True)
    assert follow(constrained(manager, choice), tokenizer, call("now", "{}"))
    assert not follow(constrained(manager, choice), tokenizer, call("now", '{"type": "object"}'))


@pytest.mark.parametrize(
    "parameters", [{"additionalProperties": True}, {"additionalProperties": {"type": "string"}}]
)
def test_a_tool_may_take_any_arguments(
    manager: StructuredOutputManager, tokenizer: Tokenizer, parameters: dict[str, Any]
) -> None:
    choice = ToolChoice([{"type": "function", "function": {"name": "put", "parameters": parameters}}])
    assert follow(constrained(manager, choice), tokenizer, call("put", '{"type": "object"}'))
