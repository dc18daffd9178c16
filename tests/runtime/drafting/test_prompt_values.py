from __future__ import annotations

import pytest

from agentrt.runtime.drafting.grammar_history import Following, PromptValues, TokenTexts

WORDS = [b"<end>", b" San", b" Francisco", b"?", b" in", b" San", b"tiago", b"3", b"75", b" days", b"\n"]
TEXTS = TokenTexts([b"", *WORDS[1:]], lambda text: [])


def values(*words: bytes) -> PromptValues:
    return PromptValues([WORDS.index(word) for word in words], TEXTS)


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


@pytest.mark.parametrize("value", [b"Oslo", b"an", b"Sa", b"Francisco", b"75"])
def test_values_that_do_not_stand_at_the_beginning_of_a_word_or_at_its_token(value: bytes) -> None:
    assert values(b" San", b"3", b"75", b" Francisco").continuation(value) == (Following.NOTHING, None)


def test_the_last_place_counts() -> None:
    prompt = values(b" San", b" Francisco", b" San", b"tiago", b"\n")
    assert prompt.continuation(b"San").following is Following.WORD_PART
    assert values().continuation(b"San") == (Following.NOTHING, None)
