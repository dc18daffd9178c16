from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.structured_output.grammar_matcher import GrammarMatcher
from agentrt.runtime.structured_output.manager import StructuredOutputManager
from agentrt.runtime.structured_output.tool_choice import ToolChoice
from tests.hypothesis_profiles import examples

OPENING = "<tool_call>"


@pytest.fixture(scope="module")
def manager(tokenizer: Tokenizer) -> StructuredOutputManager:
    return StructuredOutputManager(ToolCallFormat.HERMES, tokenizer.token_bytes, tokenizer.end_token_ids)


def tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TOOLS = [
    tool("search_notes", {"query": {"type": "string"}, "limit": {"type": "integer"}}, ["query"]),
    tool("set.light", {"state": {"enum": ["on", "off"]}}, ["state"]),
]


def constrained(manager: StructuredOutputManager, choice: ToolChoice) -> GrammarMatcher:
    matcher = manager.matcher(choice)
    assert matcher is not None
    return matcher


def follow(matcher: GrammarMatcher, tokenizer: Tokenizer, text: str) -> bool:
    """Whether every token of ``text`` is allowed in its place."""
    for token in tokenizer.encode(text):
        if matcher.active and not np.isfinite(matcher.mask_logits(np.zeros(2048, np.float32))[token]):
            return False
        matcher.accept_token(token)
    return True


def call(name: str, arguments: str) -> str:
    return f'{OPENING}\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        call("search_notes", '{"query": "roof (north) \\"2026\\" — naïve"}'),
        call("search_notes", '{"query": "x", "limit": 3}'),
        call("set.light", '{"state": "off"}'),
        "Let me look.\n"
        + call("set.light", '{"state": "on"}')
        + "\n"
        + call("search_notes", '{"query": ""}'),
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
        call("search_note", '{"query": "x"}'),
        call("search_notes", "{}"),
        call("search_notes", '{"query": 3}'),
        call("search_notes", '{"query": "x", "place": "y"}'),
        call("set.light", '{"state": "dim"}'),
        f'{OPENING}\n{{"name": "set.light", "arguments": {{"state": "on"}}\n</tool_call>',
    ],
)
def test_what_no_tool_takes_is_not_allowed(
    manager: StructuredOutputManager, tokenizer: Tokenizer, text: str
) -> None:
    assert not follow(constrained(manager, ToolChoice(TOOLS)), tokenizer, text)


@examples(25)
@given(st.integers(0, 2**32))
def test_whatever_the_model_would_say_a_finished_call_is_valid(
    manager: StructuredOutputManager, tokenizer: Tokenizer, seed: int
) -> None:
    matcher, random = constrained(manager, ToolChoice(TOOLS)), np.random.default_rng(seed)
    spoken = tokenizer.encode(OPENING)
    matcher.accept_token(spoken[0])
    while matcher.active and len(spoken) < 120:
        # Likes to end strings, so that most calls come to their end.
        noise = random.normal(size=2048).astype(np.float32)
        noise[tokenizer.encode('"}}')] += 4
        spoken.append(int(matcher.mask_logits(noise).argmax()))
        matcher.accept_token(spoken[-1])
    if not matcher.active:
        text = tokenizer.decode(spoken).removeprefix(OPENING).removesuffix("</tool_call>")
        called = json.loads(text)
        assert called["name"] in {"search_notes", "set.light"}
        assert set(called["arguments"]) <= {"query", "limit", "state"}


def test_logits_are_left_as_they_are(manager: StructuredOutputManager, tokenizer: Tokenizer) -> None:
    matcher = constrained(manager, ToolChoice(TOOLS))
    matcher.accept_token(tokenizer.encode(OPENING)[0])
    logits = np.zeros(2048, np.float32)
    assert np.isinf(matcher.mask_logits(logits)).any()
    assert not logits.any()


def test_parameters_that_are_no_schema_are_refused(manager: StructuredOutputManager) -> None:
    with pytest.raises(InvalidRequestError, match=r"cannot be followed.*plain JSON schema"):
        manager.matcher(ToolChoice([tool("broken", {"x": {"type": "no such type"}}, [])]))


@pytest.mark.parametrize(
    ("call_format", "token_bytes"),
    [(ToolCallFormat.PYTHONIC, True), (ToolCallFormat.HERMES, None), (ToolCallFormat.HERMES, [b"a", b"b"])],
)
def test_calls_without_an_opening_token_are_free_and_cannot_be_forced(
    tokenizer: Tokenizer, call_format: ToolCallFormat, token_bytes: Any
) -> None:
    vocabulary = tokenizer.token_bytes if token_bytes is True else token_bytes
    made = StructuredOutputManager(call_format, vocabulary, {1})
    assert made.call_token is None
    assert made.matcher(ToolChoice(TOOLS)) is None
    for choice in (ToolChoice(TOOLS, required=True), ToolChoice(TOOLS, parallel=False)):
        with pytest.raises(InvalidRequestError):
            made.matcher(choice)


def test_a_call_that_is_required_comes_first(manager: StructuredOutputManager, tokenizer: Tokenizer) -> None:
    choice = ToolChoice(TOOLS, required=True)
    assert not follow(constrained(manager, choice), tokenizer, "Let me look.")
    matcher = constrained(manager, choice)
    assert follow(matcher, tokenizer, call("set.light", '{"state": "on"}') + "\nDone.")
    assert not matcher.active


def test_after_the_only_call_comes_the_end(manager: StructuredOutputManager, tokenizer: Tokenizer) -> None:
    matcher = constrained(manager, ToolChoice(TOOLS, parallel=False))
    assert follow(matcher, tokenizer, "Let me look. " + call("set.light", '{"state": "on"}'))
    allowed = np.flatnonzero(np.isfinite(matcher.mask_logits(np.zeros(2048, np.float32))))
    assert set(allowed.tolist()) == tokenizer.end_token_ids


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
        (call("set.light", '{"state": "on"}') + call("search_notes", '{"query": ""}'), True),
        (call("set.light", '{"state": "on"}') + '{"n": 3, "ok": true}', False),
    ],
)
def test_an_answer_is_json_of_its_schema_or_calls(
    manager: StructuredOutputManager, tokenizer: Tokenizer, text: str, allowed: bool
) -> None:
    matcher = manager.matcher(ToolChoice(TOOLS), SCHEMA)
    assert matcher is not None
    assert follow(matcher, tokenizer, text) is allowed


def test_a_schema_that_cannot_be_followed_is_refused(manager: StructuredOutputManager) -> None:
    with pytest.raises(InvalidRequestError, match=r"response_format: cannot be followed"):
        manager.matcher(None, {"type": "no such type"})


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
