"""Grammar drafts: forced text, likely values, ends; drafts are cut where the grammar forbids them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.calls import ToolCallFormat
from agentrt.runtime import EngineStatistics, LocalRuntime
from agentrt.runtime.drafting.grammar import GrammarDrafter
from agentrt.runtime.drafting.grammar_history import Following, GrammarHistory, PromptValues, TokenTexts
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.scheduler.draft import NO_DRAFT, Draft
from agentrt.runtime.structured_output.manager import StructuredOutputManager
from agentrt.runtime.structured_output.tool_choice import ToolChoice
from tests.hypothesis_profiles import examples
from tests.runtime.conftest import open_exact

VOCABULARY = 2048
OPENING = "<tool_call>"


def tool(name: str, properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


WEATHER = tool(
    "get_weather",
    {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
)
LIGHT = tool("set_light", {"state": {"enum": ["on", "off"]}, "room": {"type": "string"}}, ["state"])


@pytest.fixture(scope="module")
def manager(tokenizer: Tokenizer) -> StructuredOutputManager:
    return StructuredOutputManager(ToolCallFormat.HERMES, tokenizer.token_bytes, tokenizer.end_token_ids)


@pytest.fixture(scope="module")
def texts(tokenizer: Tokenizer) -> TokenTexts:
    assert tokenizer.token_bytes is not None
    return TokenTexts(tokenizer.token_bytes, tokenizer.encode)


class Answer:
    """An answer that is written piece by piece, with its drafter."""

    def __init__(
        self, tokenizer: Tokenizer, texts: TokenTexts, matcher: Any, prompt: str = "", history: Any = None
    ) -> None:
        self.tokenizer, self.texts, self.matcher = tokenizer, texts, matcher
        self.history = history or GrammarHistory()
        tokens = tokenizer.encode(prompt) if prompt else []
        self.drafter = GrammarDrafter(matcher, texts, tokens, tokenizer.end_token, self.history)

    def write(self, text: str) -> Answer:
        for token in self.tokenizer.encode(text):
            self.append(token)
        return self

    def append(self, token: int) -> None:
        assert self.matcher.allows(token)
        self.matcher.accept_token(token)
        self.drafter.append(token)

    def complete(self, draft: Draft = NO_DRAFT) -> Draft:
        completed = self.drafter.complete(draft)
        assert len(completed.tokens) == len(completed.probabilities)
        assert all(0 < probability <= 1 for probability in completed.probabilities)
        return completed

    def drafted(self) -> str:
        """The text that is drafted next; the end token is written as [end]."""
        return "".join(
            "[end]" if token == self.tokenizer.end_token else self.texts.token_bytes[token].decode()
            for token in self.complete().tokens
        )


@pytest.fixture
def begin(tokenizer: Tokenizer, texts: TokenTexts, manager: StructuredOutputManager) -> Callable[..., Answer]:
    return lambda choice, **options: Answer(tokenizer, texts, manager.matcher(choice, None), **options)


HEAD = '\n{"name": "get_weather", "arguments": {"city": "'


@pytest.mark.parametrize(
    ("required", "prompt", "written", "drafted"),
    [
        (True, "", "", OPENING + HEAD),
        (True, "", OPENING, HEAD),
        (True, "", OPENING + HEAD + 'Oslo", "days": 3, "unit": "c', 'elsius"}}\n</tool_call>[end]'),
        (False, "", "", ""),
        (False, "", "I look it up.", ""),
        (False, "", "I look it up." + OPENING, HEAD),
        (False, "Weather in Oslo?", OPENING + HEAD + "Oslo", '", "days":'),
        (False, "Weather in Oslo?", OPENING + HEAD + 'Oslo", "days": 3', ', "unit": "'),
        (False, "It rains in San Francisco? Tell me.", OPENING + HEAD + "San", ' Francisco", "days":'),
        (False, "Oslo for 375 days", OPENING + HEAD + 'Oslo", "days": 3', '75, "unit": "'),
    ],
)
def test_what_is_forced_or_copied_from_the_prompt_is_drafted(
    begin: Callable[..., Answer], required: bool, prompt: str, written: str, drafted: str
) -> None:
    answer = begin(ToolChoice([WEATHER], required=required), prompt=prompt).write(written)
    assert answer.drafted().rstrip() == drafted.rstrip()


@pytest.mark.parametrize("options", [{"parallel": False}, {"required": True}, {}])
def test_the_end_of_the_answer_is_drafted_behind_a_call(
    begin: Callable[..., Answer], options: dict[str, bool]
) -> None:
    choice = ToolChoice([LIGHT], **options)
    call = '\n{"name": "set_light", "arguments": {"state": "on", "room": "hall"}}\n</tool_call>'
    answer = begin(choice).write(OPENING + call)
    assert answer.drafted() == "[end]"
    if choice.parallel:
        assert answer.write("\n").drafted() in ("", "[end]")
        assert answer.write(OPENING).drafted().startswith('\n{"name": "set_light"')


def test_no_end_is_drafted_without_an_end_token(
    begin: Callable[..., Answer], texts: TokenTexts, manager: StructuredOutputManager
) -> None:
    matcher = manager.matcher(ToolChoice([tool("now", {"zone": {"enum": ["UTC"]}})], required=True))
    assert matcher is not None
    drafter = GrammarDrafter(matcher, texts, [], None, GrammarHistory())
    draft = drafter.complete(NO_DRAFT)
    assert texts.of(draft.tokens).decode().endswith("</tool_call>")


def test_earlier_values_are_drafted_where_the_grammar_leaves_a_choice(begin: Callable[..., Answer]) -> None:
    tools = [WEATHER, LIGHT]
    first = begin(ToolChoice(tools)).write(
        OPENING + '\n{"name": "set_light", "arguments": {"state": "off", "room": "the hall"}}\n</tool_call>'
    )
    for _ in range(8):  # until it is worth a draft
        again = begin(ToolChoice(tools), history=first.history).write(OPENING)
        drafted = again.drafted()
        again.write(
            '\n{"name": "set_light", "arguments": {"state": "off", "room": "the hall"}}\n</tool_call>'
        )
    assert drafted.startswith('\n{"name": "set_light", "arguments": {"state": "off"')
    unknown = begin(ToolChoice(tools)).write(OPENING)
    assert unknown.drafted() == '\n{"name": "', "another app has a history of its own"


def test_probabilities_are_learned(begin: Callable[..., Answer]) -> None:
    history = GrammarHistory()
    first = begin(ToolChoice([WEATHER]), history=history).write(OPENING + HEAD + "Oslo").complete()
    for _ in range(20):
        answer = begin(ToolChoice([WEATHER]), history=history).write(OPENING + HEAD + "Oslo")
        answer.complete()
        answer.write(" city")
    again = begin(ToolChoice([WEATHER]), history=history).write(OPENING + HEAD + "Oslo").complete()
    assert sum(again.probabilities[:1]) < first.probabilities[0] / 2


def test_texts_are_drafted_in_the_tokens_in_which_the_model_writes_them(
    begin: Callable[..., Answer], tokenizer: Tokenizer, texts: TokenTexts
) -> None:
    bytewise = [texts.byte_token(byte) for byte in b"</tool_call>"]
    call = '\n{"name": "set_light", "arguments": {"state": "on", "room": "hall"}}\n'
    first = begin(ToolChoice([LIGHT], required=True)).write(OPENING + call)
    (tag, end) = first.complete().tokens
    for token in bytewise:
        first.append(token)
        first.complete()
    again = begin(ToolChoice([LIGHT], required=True), history=first.history).write(OPENING + call)
    assert list(again.complete().tokens[: len(bytewise)]) == bytewise
    again.append(tag)
    third = begin(ToolChoice([LIGHT], required=True), history=first.history).write(OPENING + call)
    assert third.complete().tokens == (tag, end), "the last way of writing counts"


def test_drafts_are_cut_at_the_first_token_that_is_not_allowed(
    begin: Callable[..., Answer], tokenizer: Tokenizer
) -> None:
    answer = begin(ToolChoice([WEATHER])).write(OPENING)
    tokens = tuple(tokenizer.encode(HEAD + 'Oslo", "place": "x"'))
    completed = answer.complete(Draft(tokens, (0.5,) * len(tokens)))
    text = answer.texts.of(completed.tokens).decode()
    assert text.startswith(HEAD + 'Oslo", "')
    assert "place" not in text
    forced = answer.complete(Draft(tokens[:2], (0.5, 0.5)))
    assert forced.probabilities[0] > 0.9, "what is forced is likely, whoever drafts it"


def test_drafts_of_others_are_completed_and_allowed_in_free_text(
    begin: Callable[..., Answer], tokenizer: Tokenizer
) -> None:
    answer = begin(ToolChoice([WEATHER]))
    tokens = tuple(tokenizer.encode("Let me see. " + OPENING))
    completed = answer.complete(Draft(tokens, (0.9,) * len(tokens)))
    assert answer.texts.of(completed.tokens).decode() == "Let me see. " + OPENING + HEAD


VALUES = [
    {"type": "string"},
    {"type": "string", "maxLength": 5},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"enum": ["a", "ab", "b c", "é"]},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2},
    {"type": "object", "properties": {"in": {"type": "string"}}, "additionalProperties": False},
    {"type": ["string", "null"]},
]


@st.composite
def tool_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(
        st.lists(st.sampled_from(["a", "ab", "set.light", "naïve"]), min_size=1, max_size=3, unique=True)
    )
    tools = []
    for name in names:
        keys = draw(st.lists(st.sampled_from(["k", "key", "ключ", "a b"]), max_size=3, unique=True))
        properties = {key: draw(st.sampled_from(VALUES)) for key in keys}
        tools.append(tool(name, properties, [key for key in keys if draw(st.booleans())]))
    return tools


@examples(60)
@given(tool_lists(), st.booleans(), st.booleans(), st.integers(0, 2**32))
def test_drafts_are_allowed_and_change_nothing(
    tokenizer: Tokenizer,
    texts: TokenTexts,
    manager: StructuredOutputManager,
    tools: list[dict[str, Any]],
    required: bool,
    parallel: bool,
    seed: int,
) -> None:
    """Random answers of any tools: all drafts are allowed, and the grammar allows what it does without."""
    choice = ToolChoice(tools, required=required, parallel=parallel)
    answer = Answer(tokenizer, texts, manager.matcher(choice))
    plain = manager.matcher(choice)
    assert plain is not None
    random = np.random.default_rng(seed)
    likely = tokenizer.encode('"}}')
    if not required:
        for token in tokenizer.encode(OPENING):
            answer.append(token)
            plain.accept_token(token)
    for _ in range(40):
        draft = answer.complete()
        rest = plain.copy()
        for token in draft.tokens:
            assert rest.allows(token)
            rest.accept_token(token)
        noise = random.normal(size=VOCABULARY).astype(np.float32)
        noise[likely] += 4
        allowed = np.isfinite(plain.mask_logits(noise))
        assert np.array_equal(np.isfinite(answer.matcher.mask_logits(noise)), allowed)
        some = random.integers(0, VOCABULARY, 40).tolist() + np.flatnonzero(allowed)[:40].tolist()
        assert [plain.allows(token) for token in some] == [
            not plain.active or allowed[token] for token in some
        ]
        follows = draft.tokens and random.random() < 0.5
        token = draft.tokens[0] if follows else int(np.where(allowed, noise, -np.inf).argmax())
        if token in tokenizer.end_token_ids:
            break
        answer.append(token)
        plain.accept_token(token)
        assert (plain.active, plain.may_end, plain.must_end) == (
            answer.matcher.active,
            answer.matcher.may_end,
            answer.matcher.must_end,
        )


MESSAGES = [{"role": "user", "content": "What is the weather in Oslo for 3 days in celsius?"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "temperature": {"type": "integer"},
        "description": {"type": "string", "maxLength": 20},
        "certain": {"type": "boolean"},
    },
    "required": ["temperature", "description", "certain"],
    "additionalProperties": False,
}
FORCED_CALL = {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
OPTIONS: list[dict[str, Any]] = [
    FORCED_CALL,
    FORCED_CALL | {"max_tokens": 12},
    FORCED_CALL | {"stop": ['"days"']},
    FORCED_CALL | {"stop": ["eather"]},
    FORCED_CALL | {"temperature": 1.0, "seed": 5},
    FORCED_CALL | {"repetition_penalty": 1.3},
    FORCED_CALL | {"frequency_penalty": 2.0, "presence_penalty": 2.0},
    FORCED_CALL | {"ignore_eos": True, "max_tokens": 60},
    {"tools": [WEATHER, LIGHT]},
    {"tools": [WEATHER, LIGHT], "tool_choice": "required"},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
]


EXACT = {"dynamic_quantization_group_size": 0}


@pytest.fixture(scope="module")
def exact_runtime() -> Any:
    with open_exact(drafts=True, **EXACT) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def plain_answers() -> Any:
    """The answers without any draft."""
    with open_exact(**EXACT) as runtime:
        yield [runtime.generate(MESSAGES, **{"max_tokens": 80} | options) for options in OPTIONS]


@pytest.mark.parametrize("index", range(len(OPTIONS)))
def test_the_tokens_are_the_same(exact_runtime: LocalRuntime, plain_answers: Any, index: int) -> None:
    plain = plain_answers[index]
    for _ in range(3):  # from the second time on with what was learned, and with retrieval
        answer = exact_runtime.generate(MESSAGES, app="drafts", **{"max_tokens": 80} | OPTIONS[index])
        assert (answer.token_ids, answer.text) == (plain.token_ids, plain.text)
        assert answer.finish_reason == plain.finish_reason


def test_a_forced_call_takes_few_forward_passes(
    open_runtime: Callable[..., LocalRuntime], plain_answers: Any
) -> None:
    runtime = open_runtime(drafts=True, **EXACT)
    before: EngineStatistics = runtime.statistics().engine
    answer = runtime.generate(MESSAGES, max_tokens=80, **FORCED_CALL)
    steps = runtime.statistics().engine.steps - before.steps
    assert answer.token_ids == plain_answers[0].token_ids
    assert json.dumps(answer.tool_calls[0].arguments)
    assert steps <= len(answer.token_ids) / 2
    middle = runtime.statistics().engine
    again = runtime.generate(MESSAGES, max_tokens=80, **FORCED_CALL)
    assert again.token_ids == answer.token_ids
    assert runtime.statistics().engine.steps - middle.steps < steps, "the app's values are known now"


def test_a_grammar_drafter_that_fails_costs_only_its_drafts(
    exact_runtime: LocalRuntime, plain_answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrammarHistory, "tokenize", lambda *_: 1 / 0)
    answer = exact_runtime.generate(MESSAGES, max_tokens=80, app="broken", **FORCED_CALL)
    assert answer.token_ids == plain_answers[0].token_ids


WORDS = [b"<end>", b" San", b" Francisco", b"?", b" in", b" San", b"tiago", b"3", b"75", b" days", b"\n"]
WORD_TEXTS = TokenTexts([b"", *WORDS[1:]], lambda text: [])


def values(*words: bytes) -> PromptValues:
    return PromptValues([WORDS.index(word) for word in words], WORD_TEXTS)


@pytest.mark.parametrize(
    ("prompt", "value", "following", "word"),
    [
        ((b" in", b" San", b" Francisco", b"?"), b"San", Following.LIKE_WORD, b" Francisco"),
        ((b" in", b" San", b" Francisco", b"?"), b"San Francisco", Following.PUNCTUATION, b"?"),
        ((b" San", b" in"), b"San", Following.OTHER_WORD, b" in"),
        ((b" San", b"tiago"), b"San", Following.WORD_PART, b"tiago"),
        ((b"3", b"75", b" days"), b"3", Following.WORD_PART, b"75"),
        ((b"3", b"75", b" days"), b"375", Following.OTHER_WORD, b" days"),
        ((b" San", b"<end>", b"\n"), b"San", Following.PUNCTUATION, b"<end>"),
    ],
)
def test_what_follows_a_value(
    prompt: tuple[bytes, ...], value: bytes, following: Following, word: bytes
) -> None:
    found = values(*prompt).continuation(value)
    assert found == (following, WORDS.index(word))


def test_values_that_do_not_stand_at_the_beginning_of_a_word_or_at_its_token() -> None:
    prompt = values(b" San", b"3", b"75", b" Francisco")
    for value in (b"Oslo", b"an", b"Sa", b"Francisco", b"75"):
        assert prompt.continuation(value) == (Following.NOTHING, None)


def test_the_last_place_counts() -> None:
    prompt = values(b" San", b" Francisco", b" San", b"tiago", b"\n")
    assert prompt.continuation(b"San").following is Following.WORD_PART
    assert values().continuation(b"San") == (Following.NOTHING, None)
