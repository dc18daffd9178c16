from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.runtime.model.detokenizer import ByteDetokenizer, Detokenizer, WindowDetokenizer
from agentrt.runtime.model.directory import ModelDirectory
from agentrt.runtime.model.tokenizer import Tokenizer
from tests.hypothesis_profiles import examples

# A small SentencePiece: the first piece of a word contains its space, except at the start of a text.
PIECES = ["", "▁the", "▁cat", "s", "▁", "<0xE2>", "<0x82>", "<0xAC>", "é", "▁sat"]


def decode_pieces(tokens: Sequence[int]) -> str:
    raw = b""
    for token in tokens:
        piece = PIECES[token]
        raw += bytes([int(piece[3:5], 16)]) if piece.startswith("<0x") else piece.encode()
    return raw.decode("utf-8", "replace").replace("▁", " ").removeprefix(" ")


def run(detokenizer: Detokenizer, tokens: Sequence[int]) -> list[str]:
    return [*(detokenizer.push(token) for token in tokens), detokenizer.close()]


def test_incomplete_characters_are_held_back() -> None:
    smile = "😀".encode()
    detokenizer = ByteDetokenizer([b"a", *(smile[i : i + 1] for i in range(4)), "é".encode() + smile[:2]])
    assert run(detokenizer, [0, 1, 2, 3, 4, 0]) == ["a", "", "", "", "😀", "a", ""]
    assert run(ByteDetokenizer([b"a", b"\xc3"]), [0, 1]) == ["a", "", ""], (
        "an unfinished character is dropped"
    )
    assert run(ByteDetokenizer([b"a", b"\xc3"]), [1, 0]) == ["", "�a", ""], "a wrong one is replaced"


@given(st.text().map(str.encode), st.data())
def test_bytes_arrive_whole_however_they_are_cut(raw: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=8)) | {0, len(raw)})
    pieces = [raw[a:b] for a, b in itertools.pairwise(cuts)]
    shown = run(ByteDetokenizer(pieces), range(len(pieces)))
    assert "".join(shown) == raw.decode()
    assert not any("�" in text for text in shown if "�" not in raw.decode())


@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=30))
@example([4, 5, 5, 6, 7, 6, 7])  # half a character, then a complete one
def test_window_agrees_with_decoding_at_once(tokens: list[int]) -> None:
    whole = decode_pieces(tokens)
    shown = "".join(run(WindowDetokenizer(decode_pieces, {0}), tokens))
    if "�" in whole:
        # Invalid bytes may give the two a different number of replacement characters.
        assert shown.replace("�", "") == whole.replace("�", "")
    else:
        assert shown == whole


def test_window_does_not_decode_the_whole_answer_again() -> None:
    longest = 0

    def decode(tokens: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return decode_pieces(tokens)

    assert (
        "".join(run(WindowDetokenizer(decode, {0}), [1, 2, 3, 9] * 250))
        == "the cats sat " * 249 + "the cats sat"
    )
    assert longest <= 8


@pytest.mark.parametrize("kind", ["bytes", "window"])
@examples(25)
@given(tokens=st.lists(st.integers(3, 2047), max_size=60))
def test_both_agree_with_the_models_own_detokenizer(
    tokenizer: Tokenizer, kind: str, tokens: list[int]
) -> None:
    detokenizer = (
        tokenizer.detokenizer() if kind == "bytes" else WindowDetokenizer(tokenizer.decode, tokenizer._hidden)
    )
    assert isinstance(detokenizer, ByteDetokenizer if kind == "bytes" else WindowDetokenizer)
    whole = tokenizer.decode(tokens).rstrip("�")
    shown = "".join(run(detokenizer, tokens)).rstrip("�")
    assert shown.replace("�", "") == whole.replace("�", "")


def test_bytes_that_stay_invalid_are_returned_in_the_end() -> None:
    shown = run(WindowDetokenizer(decode_pieces, {0}), [1, *[5] * 200, 1])
    assert "".join(shown).replace("�", "") == "the the"
    assert max(map(len, shown)) < 80


def test_special_tokens_and_padding_have_no_text(nano_directory: ModelDirectory) -> None:
    padded = Tokenizer(nano_directory, vocabulary_size=4096)
    assert run(padded.detokenizer(), [0, 1, 2, 4095]) == [""] * 5


def test_call_markup_is_text_even_if_its_tokens_are_special(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("x<tool_call>y</tool_call><|im_end|>")
    assert "".join(run(tokenizer.detokenizer(), tokens)) == "x<tool_call>y</tool_call>"
    assert tokenizer.decode(tokens) == "x<tool_call>y</tool_call>"
