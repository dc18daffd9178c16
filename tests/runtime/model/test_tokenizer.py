from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openvino_genai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.calls import ToolCall, ToolCallFormat, parse_tool_calls
from agentrt.errors import InvalidRequestError, ModelFormatError
from agentrt.runtime.files.checksums import CHECKSUMS
from agentrt.runtime.model import tokenizer as tokenizer_module
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.model.tokenizer_graph import check_texts
from agentrt.runtime.model.tool_prompt import with_system_in_user_message, with_tool_prompt
from tests.hypothesis_profiles import examples

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look something up.",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
    },
}


def plain(tokenizer: Tokenizer, tokens: list[int]) -> str:
    return str(tokenizer._tokenizer.decode(tokens, skip_special_tokens=False))


def test_ordinary_prompts_are_tokenized_as_openvino_genai_does(
    nano_directory: ModelDirectory, tokenizer: Tokenizer
) -> None:
    reference = openvino_genai.Tokenizer(str(nano_directory.path))
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "What is on my calendar tomorrow? Ünïcödé 😀"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": {"what": "x"}}}],
        },
        {"role": "tool", "content": "[]"},
    ]
    text = reference.apply_chat_template(messages, add_generation_prompt=True, tools=[TOOL])
    rendered = tokenizer.render(messages, [TOOL])
    assert rendered == text
    assert "look" in rendered
    expected = reference.encode(text, add_special_tokens=False).input_ids.data[0].tolist()
    assert tokenizer.encode(rendered) == expected


def forged(text: str) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]]:
    """Prompts with ``text`` in each place where text from outside enters one."""
    user = {"role": "user", "content": "hi"}
    call = {"type": "function", "function": {"name": "look", "arguments": {"what": text}}}
    described = {"type": "function", "function": {**TOOL["function"], "description": text}}
    return [
        ([{"role": "user", "content": text}], None),
        ([{"role": "system", "content": text}, user], None),
        ([user, {"role": "assistant", "content": text}, user], None),
        ([user, {"role": "tool", "content": text}], None),
        ([user, {"role": "assistant", "content": "", "tool_calls": [call]}], None),
        ([user], [described]),
    ]


@examples(30)
@given(st.lists(st.sampled_from([*SPECIAL, "<|", "im_end", "|>", " ", "x", "<tool_call>", "é"]), max_size=6))
def test_no_text_forges_special_tokens(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    ids = tokenizer._tokenizer.get_vocab()
    special = {ids[token.encode()] for token in SPECIAL}
    for (messages, tools), (harmless, harmless_tools) in zip(forged(text), forged("x"), strict=True):
        tokens = tokenizer.encode(tokenizer.render(messages, tools))
        markup = tokenizer.encode(tokenizer.render(harmless, harmless_tools))
        assert [t for t in tokens if t in special] == [t for t in markup if t in special]
        # The model still reads the same characters.
        assert (json.dumps(text)[1:-1] if "é" not in text else text) in plain(tokenizer, tokens)


@pytest.fixture
def reasoning_tokenizer(nano_directory: ModelDirectory) -> Tokenizer:
    """A tokenizer with tags of reasoning, and a template that leaves earlier reasoning out."""
    tokenizer = Tokenizer(nano_directory, 2048)
    tokenizer._special_token = re.compile(f"{tokenizer._special_token.pattern}|<think>|</think>")
    tokenizer._tokenizer.set_chat_template(
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
        "{{ m['content'].split('</think>')[-1].split('<think>') | join('') }}<|im_end|>\n{% endfor %}"
    )
    return tokenizer


def test_a_template_finds_the_reasoning_of_an_answer(reasoning_tokenizer: Tokenizer) -> None:
    answer = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nYes."}
    expected = "<|im_start|>assistant\n\n\nYes.<|im_end|>\n"
    assert reasoning_tokenizer.render([answer], None) == expected
    said = {"role": "user", "content": "</think>Yes."}
    assert "think" in reasoning_tokenizer.render([said], None)


@pytest.mark.parametrize("inner", ["<think>", "</think>", "<th<think>ink>", "</think><think>"])
def test_tags_of_reasoning_hide_no_special_token(reasoning_tokenizer: Tokenizer, inner: str) -> None:
    tokenizer = reasoning_tokenizer
    end = tokenizer._tokenizer.get_vocab()[b"<|im_end|>"]
    for text in (f"a<|im_{inner}end|>", f"<|{inner}im_end|>{inner}", f"x{inner}<|im_end|>"):
        tokens = tokenizer.encode(tokenizer.render([{"role": "assistant", "content": text}], None))
        assert tokens.count(end) == 1


def test_threads_share_a_tokenizer(tokenizer: Tokenizer) -> None:
    texts = [f"{'word ' * (n % 17)}{n}" for n in range(200)]

    def tokens(text: str) -> list[int]:
        return tokenizer.encode(tokenizer.render([{"role": "user", "content": text}], [TOOL]))

    alone = [tokens(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokens, texts)) == alone


@pytest.fixture
def copied(nano_directory: ModelDirectory, tmp_path: Path) -> Path:
    """A copy whose files may be changed: it has no digests of them."""
    ignored = shutil.ignore_patterns(CHECKSUMS)
    return shutil.copytree(nano_directory.path, tmp_path / "model", ignore=ignored)


def change(path: Path, pattern: str, replacement: str, *files: str) -> None:
    for file in files:
        (path / file).write_text(re.sub(pattern, replacement, (path / file).read_text()))


def set_template(path: Path, template: str) -> None:
    pattern = '<chat_template value="[^"]*"'
    change(path, pattern, f'<chat_template value="{template}"', "openvino_tokenizer.xml")


def test_a_missing_chat_template_is_refused(copied: Path) -> None:
    (copied / "chat_template.jinja").unlink(missing_ok=True)
    change(copied, "chat_template", "chat_templatf", "openvino_tokenizer.xml", "tokenizer_config.json")
    with pytest.raises(ModelFormatError, match="chat template"):
        Tokenizer(open_model_directory(copied), 2048)


def test_a_template_that_rejects_messages_is_an_error(copied: Path) -> None:
    set_template(copied, "{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InvalidRequestError, match=r"messages: .*roles must alternate"):
        Tokenizer(open_model_directory(copied), 2048).render([{"role": "user", "content": "hi"}], None)


@pytest.mark.parametrize(
    "template", ["{{ messages[0]['content'] }", "{% for %}", "{% if true %}", "{{ 'a }}"]
)
def test_a_template_that_cannot_be_parsed_is_refused(copied: Path, template: str) -> None:
    set_template(copied, template)
    with pytest.raises(ModelFormatError, match=r"cannot be parsed: .* at row 1, column \d+"):
        Tokenizer(open_model_directory(copied), 2048)


def test_a_missing_end_token_is_refused(copied: Path) -> None:
    graphs = ("openvino_tokenizer.xml", "openvino_detokenizer.xml")
    change(copied, "eos_token", "xxx_token", *graphs, *(file.name for file in copied.glob("*config.json")))
    with pytest.raises(ModelFormatError, match=r"end token.*generation_config\.json"):
        Tokenizer(open_model_directory(copied), 2048)


@pytest.fixture
def calls(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of each call that tokenizes."""
    texts: list[list[str]] = []
    encode = tokenizer._encode_batch

    def counted(batch: list[str]) -> list[int]:
        texts.append(batch)
        return encode(batch)

    monkeypatch.setattr(tokenizer, "_encode_batch", counted)
    return texts


def test_forged_tokens_are_tokenized_many_at_once(tokenizer: Tokenizer, calls: list[list[str]]) -> None:
    forged = "".join(f"<|im_end|>{number}" for number in range(16_000))
    tokens = tokenizer.encode(tokenizer.escape_special_tokens(forged))
    assert len(calls) <= 8
    assert plain(tokenizer, tokens) == forged


def test_a_long_text_is_tokenized_in_short_parts(tokenizer: Tokenizer, calls: list[list[str]]) -> None:
    text = "Hello there, it is the 3rd of May.\nAnd so on " * 5000
    progress: list[int] = []
    tokens = tokenizer.encode(text, progress.append)
    assert max(len(part) for batch in calls for part in batch) < 17_000  # a call holds the global lock
    assert sorted(set(progress)) == progress
    assert len(progress) > 3
    assert tokens == whole(tokenizer, text)


def test_a_text_that_cannot_be_cut_is_bounded(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequestError, match="more than 524288 characters"):
        tokenizer.encode("a" * 600_000)


def whole(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of a text in one call."""
    encoded = tokenizer._tokenizer.encode(text, add_special_tokens=False)
    tokens: list[int] = encoded.input_ids.data[0].tolist()
    return tokens


WORDS = st.text(st.sampled_from("abZé日 \n\r\t.,'0"), max_size=40)
PIECES = st.lists(st.sampled_from([*SPECIAL, "Two words. ", "one\ntwo "]) | WORDS, max_size=12).map("".join)


@examples(100)
@given(PIECES, st.sampled_from([1, 7, 1 << 14]), st.sampled_from([1, 100, 1 << 16]))
def test_a_text_has_the_tokens_of_its_parts(tokenizer: Tokenizer, text: str, call: int, batch: int) -> None:
    escaped = tokenizer.escape_special_tokens(text)
    expected = [token for piece in escaped.split(tokenizer._separator) for token in whole(tokenizer, piece)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "_CALL_CHARACTERS", call)
        patch.setattr(tokenizer_module, "_BATCH_CHARACTERS", batch)
        assert tokenizer.encode(escaped) == expected


def test_progress_may_end_the_work(tokenizer: Tokenizer, calls: list[list[str]]) -> None:
    counts: list[int] = []

    def progress(tokens: int) -> None:
        counts.append(tokens)
        if tokens > 1000:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        tokenizer.encode(tokenizer.escape_special_tokens("<|im_end|>" * 100_000), progress)
    assert counts[0] == 0
    assert len(calls) == len(counts) - 1 == 1


@examples(50)
@given(st.text(max_size=200))
def test_a_text_has_at_least_as_many_tokens_as_its_length_says(tokenizer: Tokenizer, text: str) -> None:
    tokens = tokenizer.encode(tokenizer.escape_special_tokens(text + "<|im_end|>"))
    assert 0 < tokenizer.least_tokens(len(text) + 10_000) - tokenizer.least_tokens(len(text)) < 10_000
    assert tokenizer.least_tokens(len(text)) <= len(tokens)
    assert tokenizer.most_characters(len(tokens)) >= len(text)


# Graphs of tokenizers that are damaged: refused before OpenVINO reads outside their texts.

GRAPHS = ("openvino_tokenizer", "openvino_detokenizer")


@pytest.mark.parametrize("graph", GRAPHS)
def test_random_bytes_are_refused(copied: Path, graph: str) -> None:
    file = copied / f"{graph}.bin"
    file.write_bytes(np.random.default_rng(0).bytes(file.stat().st_size))
    with pytest.raises(ModelFormatError, match=rf"{graph}\.xml is damaged \(a text lies outside its bytes\)"):
        Tokenizer(open_model_directory(copied), 2048)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("value", [-1, -(2**31), 2**31 - 1, 7261])
def test_one_wrong_extent_is_refused(copied: Path, graph: str, value: int) -> None:
    """The last begin or the last end of the vocabulary: the texts are the first constants of i32 and u8."""
    text = (copied / f"{graph}.xml").read_text()
    extents = [
        (int(match[1]), int(match[2]))
        for match in re.finditer(r'element_type="i32" shape="2048" offset="(\d+)" size="(\d+)"', text)
    ]
    for offset, size in extents[:2]:
        weights = copied / f"{graph}.bin"
        whole = weights.read_bytes()
        last = offset + size - 4
        weights.write_bytes(whole[:last] + np.int32(value).tobytes() + whole[last + 4 :])
        with pytest.raises(ModelFormatError, match="a text lies outside its bytes"):
            check_texts(copied / f"{graph}.xml")
        weights.write_bytes(whole)
    check_texts(copied / f"{graph}.xml")


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"<net><layers></net>",
        lambda text: b"<net><layers/><edges/></net>",
        lambda text: text.replace(b"from-layer", b"from_layer"),
        lambda text: text.replace(b"<data", b"<dota"),
    ],
)
def test_a_graph_that_cannot_be_read_is_refused(
    copied: Path, graph: str, damage: Callable[[bytes], bytes]
) -> None:
    file = copied / f"{graph}.xml"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ModelFormatError, match="Convert"):
        Tokenizer(open_model_directory(copied), 2048)


# Tools as text, for chat templates that take none.

USER = {"role": "user", "content": "hi"}


def call(name: str, id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": {"q": 1}}}


def test_tools_stand_in_the_system_message() -> None:
    system, user = with_tool_prompt([USER], [TOOL])
    assert system["role"] == "system"
    assert json.dumps(TOOL["function"]) in system["content"]
    assert user == USER
    (merged, _) = with_tool_prompt([{"role": "system", "content": "Be brief."}, USER], [TOOL])
    assert merged["content"] == f"Be brief.\n\n{system['content']}"


def test_without_tools_nothing_is_added() -> None:
    assert with_tool_prompt([USER], None) == [USER]


def test_calls_are_written_as_the_prompt_asks_for() -> None:
    answer = {"role": "assistant", "content": "", "tool_calls": [call("look", "a"), call("look", "b")]}
    (_, _, written) = with_tool_prompt([USER, answer], [TOOL])
    text, calls = parse_tool_calls(written["content"], ToolCallFormat.JSON_MESSAGE)
    assert (text.strip(), calls) == ("", (ToolCall("look", {"q": 1}), ToolCall("look", {"q": 1})))


def test_outputs_are_user_messages_named_after_their_call() -> None:
    answer = {"role": "assistant", "content": "Wait.", "tool_calls": [call("look", "a"), call("find", "b")]}
    outputs = [
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
    ]
    plain = with_tool_prompt([USER, answer, *outputs, USER], None)
    assert [message["role"] for message in plain] == ["user", "assistant", "user", "user"]
    assert plain[1]["content"].startswith("Wait.\n{")
    assert plain[2]["content"] == "Result of find:\nB\n\nResult of look:\nA"


def test_a_system_message_can_move_into_the_first_user_message() -> None:
    system = {"role": "system", "content": "S"}
    assert with_system_in_user_message([system, USER]) == [{"role": "user", "content": "S\n\nhi"}]
    assert with_system_in_user_message([system]) == [{"role": "user", "content": "S"}]
