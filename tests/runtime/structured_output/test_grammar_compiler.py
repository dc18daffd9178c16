from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from llguidance import LLMatcher

from agentrt.errors import InvalidRequestError, ModelFormatError
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.structured_output import grammar_compiler as module
from agentrt.runtime.structured_output import schema_limits
from agentrt.runtime.structured_output.grammar_compiler import GrammarCompiler, NamedSchema
from agentrt.runtime.structured_output.grammars import json_grammar


def new_compiler(tokenizer: Tokenizer, **limits: int) -> GrammarCompiler:
    return GrammarCompiler(tokenizer.token_bytes, min(tokenizer.end_token_ids), **limits)


@pytest.fixture
def compiler(tokenizer: Tokenizer) -> GrammarCompiler:
    return new_compiler(tokenizer)


class Compilations:
    """Counts compilations, which wait until they may go on."""

    def __init__(self) -> None:
        self.grammars: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, tokenizer: Any, grammar: str, **options: Any) -> LLMatcher:
        self.grammars.append(grammar)
        assert self.go.wait(30)
        return LLMatcher(tokenizer, grammar, **options)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Compilations:
    compilations = Compilations()
    monkeypatch.setattr(module, "LLMatcher", compilations)
    return compilations


def compile_schema(compiler: GrammarCompiler, schema: dict[str, Any]) -> LLMatcher:
    named = NamedSchema("response_format", "its schema", schema)
    return compiler.compile(json_grammar(schema), "response_format", [named])


def test_requests_with_the_same_grammar_share_a_compilation(
    compiler: GrammarCompiler, compilations: Compilations
) -> None:
    compilations.go.clear()
    with ThreadPoolExecutor(8) as threads:
        compiled = [threads.submit(compiler.compile, 'start: "a"', "tools") for _ in range(8)]
        compilations.go.set()
        first, *others = (future.result(30) for future in compiled)
    assert all(other is first for other in others)
    assert len(compilations.grammars) == 1


def test_an_interrupted_compilation_is_begun_again(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "LLMatcher", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiler.compile('start: "a"', "tools")
    assert not compiler.compile('start: "a"', "tools").is_error()


def test_only_a_few_grammars_are_kept(compiler: GrammarCompiler) -> None:
    first = compiler.compile('start: "first"', "tools")
    for number in range(64):
        compiler.compile(f'start: "{number}"', "tools")
    assert len(compiler._compiled) == 64
    assert compiler.compile('start: "first"', "tools") is not first


def test_kept_grammars_have_few_bytes(tokenizer: Tokenizer, compilations: Compilations) -> None:
    compiler = new_compiler(tokenizer, max_cached_bytes=2 * 2**20)
    small = 'start: "small"'
    compiler.compile(small, "tools")
    for number in range(20):
        compiler.compile(f'start: "{number}{"x" * 10_000}"', "tools")
        compiler.compile(small, "tools")
    assert 2 <= len(compiler._compiled) <= 6
    assert compilations.grammars.count(small) == 1  # the ones that are used stay
    compiler.compile(f'start: "{"x" * 200_000}"', "tools")
    assert len(compiler._compiled) == 1


NUMBERS: list[dict[str, Any]] = [
    *({"multipleOf": multiple} for multiple in (999983, 1e15, 10**300, 12345.5, 0.123457, -999983, math.inf)),
    {"multipleOf": 10**400},
    {"allOf": [{"multipleOf": 10**300 + number} for number in range(50)]},
    {"multipleOf": 0, "allOf": [{"multipleOf": 7919}, {"multipleOf": 97}]},
    *({"properties": {name: {"multipleOf": 999983}}} for name in ("const", "default", "enum", "examples")),
    {"examples": [{"multipleOf": 999983}], "$ref": "#/examples/0"},
    {"default": {"multipleOf": 999983}, "$ref": "#/d%65fault"},
    {"oneOf": [{"type": "integer", "multipleOf": multiple} for multiple in range(9500, 9600)]},
    {"allOf": [{"multipleOf": 7919}, {"multipleOf": 97}]},
    {"type": "object", "properties": {str(each): {"multipleOf": each} for each in range(9500, 9600)}},
    {"prefixItems": [{"multipleOf": 5003}, {"multipleOf": 5009}]},
    {"allOf": [{"multipleOf": 0.97}, {"multipleOf": 89}, {"multipleOf": 7}]},
    {"multipleOf": 7919, "$ref": "#/$defs/other"},
    {"anyOf": [{"type": "integer", "multipleOf": 4999}, {"type": "integer", "multipleOf": 4987}]},
    {"anyOf": [{"type": "number", "multipleOf": multiple} for multiple in range(50, 150)]},
    {
        "anyOf": [
            {"$ref": "#/$defs/other"},
            {"oneOf": [{"multipleOf": 89}, {"type": "null"}]},
            {"multipleOf": 3},
        ]
    },
    {"anyOf": [{"$ref": "#/prefixItems/1"}, {"multipleOf": 89}], "prefixItems": [{}, {"multipleOf": 997}]},
    {"multipleOf": 7919, "anyOf": [{"minimum": 3, "multipleOf": 97}, {"maximum": 2}]},
]
"""Of numbers that these describe, a grammar would tell more than 10,000 remainders apart."""


@pytest.mark.parametrize("number", NUMBERS)
def test_a_keyword_that_cannot_be_bounded_is_refused_by_name(
    compiler: GrammarCompiler, compilations: Compilations, number: dict[str, Any]
) -> None:
    other = {"other": {"multipleOf": 97}}
    for schema in (number, {"anyOf": [{"type": "array", "items": number}]}, {"$defs": {"a": number}}):
        with pytest.raises(InvalidRequestError, match=r"response_format: its schema .*multipleOf"):
            compile_schema(compiler, {"type": "object", "properties": {"a": schema}, "$defs": other})
    assert not compilations.grammars


def test_remainders_are_not_counted_beyond_the_limit(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least common multiple of long numbers takes seconds, in which no other thread runs."""
    multiplied: list[int] = []

    def lcm(*numbers: int) -> int:
        multiplied.extend(numbers)
        return math.lcm(*numbers)

    monkeypatch.setattr(schema_limits, "math", SimpleNamespace(**{**vars(math), "lcm": lcm}))
    long = [{"multipleOf": 10**300 + number} for number in range(200)]
    primes = [{"multipleOf": number} for number in (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)]
    for numbers in (long, primes):
        with pytest.raises(InvalidRequestError, match="multipleOf leaves more than"):
            compile_schema(compiler, {"allOf": numbers})
    assert max(multiplied) <= schema_limits.MAX_REMAINDERS


def test_an_object_of_thousands_of_properties_is_refused(
    compiler: GrammarCompiler, compilations: Compilations
) -> None:
    schema = {"type": "object", "properties": {f"key{number}": {} for number in range(3000)}}
    for outer in (schema, {"properties": {"default": schema}}, {"default": schema, "$ref": "#/default"}):
        with pytest.raises(InvalidRequestError, match=r"properties has 3000 optional names"):
            compile_schema(compiler, outer)
    assert not compilations.grammars


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "multipleOf": 0.01},
        {"type": "integer", "multipleOf": 3600},
        {"allOf": [{"type": "integer", "multipleOf": 60}, {"multipleOf": 25}]},
        {"type": "object", "properties": {str(each): {"multipleOf": each} for each in (0.01, 7, 9871, 97)}},
        {"type": "object", "properties": {"multipleOf": {"type": "integer"}}},
        {"type": "array", "prefixItems": [{"type": "integer", "multipleOf": 9973}] * 450},
        {"anyOf": [{"type": "integer", "multipleOf": 9973, "minimum": least} for least in range(450)]},
        {"anyOf": [{"type": "integer", "multipleOf": 60}, {"type": "integer", "multipleOf": 25}]},
        {
            "$defs": {"cents": {"type": "number", "multipleOf": 0.01}, "a/b": {"$ref": "#/$defs/a~1b"}},
            "type": "object",
            "properties": {
                "price": {"anyOf": [{"$ref": "#/$defs/cents"}, {"type": "null"}]},
                "seconds": {"anyOf": [{"type": "integer", "multipleOf": 3600}, {"type": "null"}]},
            },
        },
        {"type": "object", "properties": {f"key{number}": {"type": "string"} for number in range(256)}},
        {
            "properties": {f"key{number}": {} for number in range(999)},
            "required": [f"key{n}" for n in range(999)],
        },
    ],
)
def test_ordinary_keywords_are_compiled(compiler: GrammarCompiler, schema: dict[str, Any]) -> None:
    assert not compile_schema(compiler, schema).is_error()


def test_a_grammar_whose_states_are_used_up_is_compiled_again(
    tokenizer: Tokenizer, compilations: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_LEXER_STATES", 300)
    compiler = new_compiler(tokenizer)
    schema = {"type": "string", "pattern": "^.*a.{60}$"}
    answer = compile_schema(compiler, schema).deep_copy()
    for token in tokenizer.encode('"' + "abba" * 100):
        answer.compute_bitmask()
        answer.consume_token(token)
    assert "too many states" in answer.get_error()
    another = compile_schema(compiler, schema).deep_copy()
    another.compute_bitmask()
    assert not another.is_error()
    assert len(compilations.grammars) == 2


def test_the_search_for_the_wrong_part_may_be_cancelled(
    compiler: GrammarCompiler, compilations: Compilations
) -> None:
    wrong = {"type": "string", "pattern": "(("}
    schema = {"type": "object", "properties": {f"key{number}": wrong for number in range(100)}}

    def cancelled() -> None:
        raise InterruptedError

    named = [NamedSchema("response_format", "its schema", schema)]
    with pytest.raises(InterruptedError):
        compiler.compile(json_grammar(schema), "response_format", named, cancelled)
    assert len(compilations.grammars) == 1


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*){50}x", "((a{1,99}){1,99}){1,99}"]
)
def test_patterns_that_slow_down_backtracking_engines_are_quick_or_refused(
    tokenizer: Tokenizer, pattern: str
) -> None:
    compiler = new_compiler(tokenizer)
    grammar = f'start: %json {{"type": "string", "pattern": "{pattern}"}}'
    try:
        matcher = compiler.compile(grammar, "tools").deep_copy()
    except InvalidRequestError:
        return
    for token in tokenizer.encode('"' + "a" * 200):
        matcher.compute_bitmask()
        matcher.consume_token(token)


def test_a_very_large_schema_is_refused(compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidRequestError, match="more than 262144 characters"):
        compiler.compile("start: " + '"a" ' * 100_000, "response_format")


def allowed(compiler: GrammarCompiler, text: list[int]) -> list[bytes]:
    """The masks in front of each token of ``text``, and behind the last."""
    matcher = compile_schema(
        compiler, {"type": "object", "properties": {"q": {"type": "string"}}}
    ).deep_copy()
    masks = [matcher.compute_bitmask()]
    for token in text:
        matcher.consume_token(token)
        masks.append(matcher.compute_bitmask())
    return masks


def test_what_is_prepared_changes_no_mask(tokenizer: Tokenizer) -> None:
    compiler = new_compiler(tokenizer)
    text = tokenizer.encode('{"q": "the weather in Oslo')
    before = allowed(compiler, text)
    compiler.prepare()
    assert allowed(compiler, text) == before
    assert len(set(before)) > 3


def test_a_vocabulary_is_read_and_prepared_once_and_grammars_are_compiled_anew_for_it(
    tokenizer: Tokenizer, compilations: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []

    def reads(wrapper: Any, slices: Any) -> Any:
        read.append(slices)
        return own(wrapper, slices=slices)

    own = module.LLTokenizer
    reads.general_slices = own.general_slices  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "LLTokenizer", reads)
    compiler = new_compiler(tokenizer)
    read.clear()  # the longest token, tried alone
    for _ in range(2):
        compiler.compile('start: "a"', "tools")
    assert (read, len(compilations.grammars)) == ([[]], 1)
    for _ in range(2):
        compiler.prepare()
        compiler.compile('start: "a"', "tools")
    assert (read, len(compilations.grammars)) == ([[]], 2)


@pytest.mark.parametrize("length", [1000, 2000])
def test_a_token_that_is_too_long_is_refused_before_a_grammar_needs_it(length: int) -> None:
    vocabulary = [b"a", b"b" * length, b""]
    if length == 1000:
        GrammarCompiler(vocabulary, 2).prepare()
        return
    with pytest.raises(ModelFormatError, match="vocabulary cannot be read"):
        GrammarCompiler(vocabulary, 2)


class PanicException(BaseException):
    """As pyo3 raises for a panic: it cannot be imported."""


def test_a_panic_is_a_typed_error(compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*args: Any, **_: Any) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(module, "LLMatcher", panic)
    with pytest.raises(InvalidRequestError, match="tools: its schemas cannot be compiled"):
        compiler.compile('start: "a"', "tools")
    monkeypatch.setattr(module, "LLTokenizer", panic)
    with pytest.raises(ModelFormatError, match="vocabulary cannot be read"):
        GrammarCompiler([b"a"], 0)
