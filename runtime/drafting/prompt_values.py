"""Values that a call copies from the prompt: how a value that has begun goes on there."""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from .token_texts import TokenTexts

_MOST_TOKENS: Final = 4096
_MOST_PLACES: Final = 8
"""Places that are looked at in one search, so that repeated text costs no more than other text."""


class Following(enum.Enum):
    """What stands in the prompt behind the text that a value has begun with."""

    NOTHING = "nothing"
    """The prompt does not have that text."""
    WORD_PART = "part"
    """The rest of a word or number."""
    LIKE_WORD = "like"
    """A word that begins as the value does: with a capital letter, a digit or a small letter."""
    OTHER_WORD = "other"
    """A word that begins otherwise."""
    PUNCTUATION = "punctuation"
    """A sign, or the end of the message."""


class Continuation(NamedTuple):
    """How a value may go on."""

    following: Following
    token: int | None = None
    """The prompt's token behind the value; None if there is none."""


class PromptValues:
    """The last 4096 tokens of a prompt, as text."""

    def __init__(self, prompt: Sequence[int], texts: TokenTexts) -> None:
        """Nothing is computed before the first search."""
        self._prompt = prompt
        self._texts = texts

    @functools.cached_property
    def _tokens(self) -> Sequence[int]:
        return self._prompt[-_MOST_TOKENS:]

    @functools.cached_property
    def _text(self) -> bytes:
        return self._texts.of(self._tokens)

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        """The place of each token by where its text begins."""
        lengths = [len(self._texts.token_bytes[token]) for token in self._tokens]
        begins = np.cumsum([0, *lengths[:-1]]).tolist()
        return {begin: place for place, begin in reversed(list(enumerate(begins)))}

    def continuation(self, value: bytes) -> Continuation:
        """Return what follows ``value`` where it stands last in the prompt, at the beginning of a word."""
        begin = len(self._text)
        for _ in range(_MOST_PLACES):
            begin = self._text.rfind(value, 0, begin + len(value) - 1)
            if begin < 0:
                break
            place = self._places.get(begin + len(value))
            if place is not None and not self._text[begin - 1 : begin].isalnum():
                token = self._tokens[place]
                special = not self._texts.token_bytes[token]
                text = b"" if special else self._text[begin + len(value) :][:2]
                return Continuation(_following(value, text), token)
        return Continuation(Following.NOTHING)


def _following(value: bytes, text: bytes) -> Following:
    """Classify the two characters ``text`` behind ``value``."""
    if text[:1].isalnum():
        return Following.WORD_PART
    if text[:1] != b" " or not text[1:].isalnum():
        return Following.PUNCTUATION
    return Following.LIKE_WORD if _letter(value) == _letter(text[1:]) else Following.OTHER_WORD


def _letter(text: bytes) -> str:
    first = text.lstrip()[:1]
    return "digit" if first.isdigit() else "capital" if first.isupper() else "small"
