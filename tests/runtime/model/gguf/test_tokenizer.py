"""Vocabularies of GGUF files: tokens, their bytes, and the chat template."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from agentrt.bench.common.random_gguf import write_gguf
from agentrt.calls import ToolCall, ToolCallFormat
from agentrt.runtime.model.directory import open_model_directory
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.toolcache.renderer import ToolTurnRenderer
from tests.hypothesis_profiles import first_of
from tests.runtime.model.gguf.families import VOCABULARY, metadata, vocabulary, weights, write_family

pytestmark = pytest.mark.real_model

TEXTS = [
    "hello there",
    "  two  spaces\n\n\tand 12345 tabs ",
    "ünïcödé 😀 日本語\r\n",
    "there's o'clock",
    "",
]


def sentencepiece(**changes: Any) -> dict[str, Any]:
    """A vocabulary as SentencePiece makes them: words with scores, and all bytes."""
    words = ["▁the", "▁then", "▁t", "he", "the", "n", "t", "h", "e", "▁", "o", "▁o", "▁▁", "日"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    scores = [0.0] * 259 + [-float(at) for at in range(len(words))]
    types = [2, 3, 3, *[6] * 256, *[1] * len(words)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": vocabulary()["tokenizer.chat_template"],
    } | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}


def open_tokenizer(folder: Path, tokens: dict[str, Any]) -> Tokenizer:
    others = {key: value for key, value in metadata("llama").items() if not key.startswith("tokenizer")}
    file = write_gguf(folder / "model.gguf", others | tokens, weights("llama"))
    return Tokenizer(open_model_directory(file, folder / "cache"), VOCABULARY)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("byte-level")
    file = write_family(folder / "model.gguf", "qwen2")
    return Tokenizer(open_model_directory(file, folder / "cache"), VOCABULARY)


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_tokens_are_bytes(byte_level: Tokenizer, text: str) -> None:
    tokens = byte_level.encode(text)
    assert byte_level.token_bytes is not None
    assert b"".join(byte_level.token_bytes[token] for token in tokens).decode() == text
    assert byte_level.decode(tokens) == text


def test_merges_join_bytes(byte_level: Tokenizer) -> None:
    assert byte_level.token_bytes is not None
    assert [byte_level.token_bytes[token] for token in byte_level.encode("esot")] == [b"es", b"o", b"t"]


def test_control_tokens_have_no_text(byte_level: Tokenizer) -> None:
    assert byte_level.encode("a<|im_end|>b")[1] == 2
    assert byte_level.decode([1, 2]) == ""
    assert byte_level.end_token_ids == {2}


def test_control_tokens_are_told_where_all_are_asked_for(byte_level: Tokenizer) -> None:
    assert byte_level.token_text(2) == "<|im_end|>"
    assert byte_level.decode_all([1, *byte_level.encode("a"), 2]) == "<|im_start|>a<|im_end|>"


def test_an_answered_call_is_followed_by_all_that_the_template_writes(byte_level: Tokenizer) -> None:
    """What is left out is not what the model would read if the client sent the next request."""
    renderer, call = ToolTurnRenderer(byte_level, ToolCallFormat.HERMES), ToolCall("look", {"q": "a"})
    tokenized = renderer.tokenize_call(call, "found")
    for reply in (renderer.reply([call], ["found"]), tokenized.reply):
        assert reply.end_token == tokenized.tokens[-1] == 2
        text = byte_level.decode_all(reply.tokens)
        assert text == "\n<|im_start|>user\nResult of look:\nfound<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("prefix", [False, True])
def test_sentencepiece(tmp_path: Path, prefix: bool) -> None:
    """Tokens are bytes, the best-scored pair is merged first, and a text with a prefix is not cut."""
    tokenizer = open_tokenizer(tmp_path, sentencepiece(add_space_prefix=prefix))
    words = sentencepiece()["tokenizer.ggml.tokens"]
    if prefix:
        assert [words[token] for token in tokenizer.encode("then the")] == ["▁then", "▁the"]
        assert [words[token] for token in tokenizer.encode("o\n")] == ["▁o", "<0x0A>"]
    assert tokenizer.token_bytes is not None
    for text in (*TEXTS, "the then", "then▁e", "  日 "):
        tokens = tokenizer.encode(text)
        written = b"".join(tokenizer.token_bytes[token] for token in tokens).decode()
        assert written == (" " if prefix and text else "") + text.replace("▁", " ")
        assert tokenizer.decode(tokens) == written
    text = "then the noon\nand " * 2000
    alone = tokenizer._tokenizer.encode(text, add_special_tokens=False).input_ids.data[0].tolist()
    assert tokenizer.encode(text) == alone
    assert len(list(tokenizer._parts(text))) == 1 or not prefix


@pytest.mark.parametrize(
    "expected", first_of([("smollm", 6), ("llama-bpe", 2), ("gpt-2", 2), ("qwen2", 6)], 2)
)
def test_the_expressions_of_the_pre_tokenizer_are_used(tmp_path: Path, expected: tuple[str, int]) -> None:
    pre, length = expected
    tokens = vocabulary()["tokenizer.ggml.tokens"][:300]
    changes = {
        "pre": pre,
        "tokens": [*tokens, "12", "123", "ĠĠ", "ĊĊ"],
        "token_type": [3] * 3 + [1] * 301,
        "merges": ["1 2", "12 3", "Ġ Ġ", "Ċ Ċ"],
    }
    changed = {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    tokenizer = open_tokenizer(tmp_path, vocabulary() | changed)
    assert len(tokenizer.encode("123123")) == length
    assert len(tokenizer.encode("   x")) == 3  # two spaces, and the one before a letter


def test_an_unknown_pre_tokenizer_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        open_tokenizer(tmp_path, vocabulary() | {"tokenizer.ggml.pre": "someone's"})
    assert "someone's" in caplog.text


TEMPLATES = {
    "whitespace": "{%- for m in messages -%}\n  {{- m['content'] | trim }} |\n{%- endfor -%}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
    "{{ ns.n }}",
    "tojson": "{{ messages[0] | tojson }}",
    "slices": "{% for m in messages[1:] %}{{ loop.index0 }}{{ m.role }}{% endfor %}",
    "defined": "{% if tools is defined and tools %}tools{% else %}none{% endif %}"
    "{% if x is not defined %}!{% endif %}",
    "escapes": "{{ '<|im_start|>\\n\"&<>' + messages[0]['content'] }}",
    "unicode": "{{ 'é日😀 ' + messages[0]['content'] }}",
    "macro": "{% macro f(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(messages[0].content) }}",
    "filters": "{{ messages | map(attribute='role') | join(',') }}{{ 'aXb'.split('X') | last | upper }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_chat_templates_render_as_jinja_does(byte_level: Tokenizer, name: str, tmp_path: Path) -> None:
    jinja2 = pytest.importorskip("jinja2", reason="Jinja is the reference of chat templates")
    tokenizer = byte_level
    if name in ("escapes", "unicode"):  # through a file
        tokenizer = open_tokenizer(tmp_path, vocabulary() | {"tokenizer.chat_template": TEMPLATES[name]})
        assert tokenizer.chat_template == TEMPLATES[name]
    tokenizer._tokenizer.set_chat_template(TEMPLATES[name])
    messages = [{"role": "user", "content": " hi <you> "}, {"role": "assistant", "content": "ü"}]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    # Chat templates of Transformers write JSON so, without HTML's escapes.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    expected = environment.from_string(TEMPLATES[name]).render(messages=messages, add_generation_prompt=True)
    assert tokenizer.render(messages, None) == expected
