from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import llguidance
import pytest

from agentrt.errors import InvalidRequestError, ModelFormatError, OverloadedError
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.structured_output import grammar_compiler as module
from agentrt.runtime.structured_output.grammar_compiler import GrammarCompiler


@pytest.fixture
def compiler(tokenizer: Tokenizer) -> GrammarCompiler:
    assert tokenizer.token_bytes is not None
    return GrammarCompiler(tokenizer.token_bytes, min(tokenizer.end_token_ids), time_limit_s=0.2)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes compilations wait until the event is set."""
    go = threading.Event()

    def wait(*args: Any) -> Any:
        go.wait(30)
        return llguidance.LLMatcher(*args)

    monkeypatch.setattr(module, "LLMatcher", wait)
    yield go
    go.set()


def test_a_grammar_is_compiled_once(compiler: GrammarCompiler) -> None:
    assert compiler.compile('start: "a"', "tools") is compiler.compile('start: "a"', "tools")


def test_a_grammar_that_takes_too_long_is_refused_and_its_result_is_kept(
    compiler: GrammarCompiler, stuck: threading.Event
) -> None:
    with pytest.raises(InvalidRequestError, match=r"tools: its schemas take more than 0.2 s"):
        compiler.compile('start: "a"', "tools")
    stuck.set()
    assert not compiler.compile('start: "a"', "tools").is_error()


def test_only_a_few_compilations_run_at_once(compiler: GrammarCompiler, stuck: threading.Event) -> None:
    for text in "abcd":
        with pytest.raises(InvalidRequestError, match="take more than"):
            compiler.compile(f'start: "{text}"', "tools")
    with pytest.raises(OverloadedError, match="being compiled"):
        compiler.compile('start: "e"', "tools")


def test_other_compilations_wait_for_a_free_place(tokenizer: Tokenizer, stuck: threading.Event) -> None:
    assert tokenizer.token_bytes is not None
    compiler = GrammarCompiler(tokenizer.token_bytes, min(tokenizer.end_token_ids), time_limit_s=60)
    grammars = [f'start: "{text}"' for text in "abcdefgh"]
    with ThreadPoolExecutor(len(grammars)) as threads:
        compiled = [threads.submit(compiler.compile, grammar, "tools") for grammar in grammars]
        assert not any(future.done() for future in compiled)
        stuck.set()
        assert not any(future.result(60).is_error() for future in compiled)


def test_only_a_few_grammars_are_kept(compiler: GrammarCompiler) -> None:
    first = compiler.compile('start: "first"', "tools")
    for number in range(64):
        compiler.compile(f'start: "{number}"', "tools")
    assert len(compiler._compiled) == 64
    assert compiler.compile('start: "first"', "tools") is not first


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*){50}x", "((a{1,99}){1,99}){1,99}"]
)
def test_patterns_that_slow_down_backtracking_engines_are_quick_or_refused(
    tokenizer: Tokenizer, pattern: str
) -> None:
    assert tokenizer.token_bytes is not None
    compiler = GrammarCompiler(tokenizer.token_bytes, min(tokenizer.end_token_ids))
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


class PanicException(BaseException):
    """As pyo3 raises for a panic: it cannot be imported."""


def test_a_panic_is_a_typed_error(compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*args: Any) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(module, "LLMatcher", panic)
    with pytest.raises(InvalidRequestError, match="tools: its schemas cannot be compiled"):
        compiler.compile('start: "a"', "tools")
    monkeypatch.setattr(module, "LLTokenizer", panic)
    with pytest.raises(ModelFormatError, match="vocabulary cannot be read"):
        GrammarCompiler([b"a"], 0)


def test_an_interrupt_is_no_panic(compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "LLMatcher", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compiler.compile('start: "a"', "tools")
