"""What grammar drafts are made of: texts of tokens, values of the prompt, what an app's answers taught."""

from __future__ import annotations

import enum
import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

_PRIOR_TOKENS: Final = 4.0
"""Verified tokens that the prior counts as much as."""
_MEMORY: Final = 0.98
"""Weight of what was learned after one more token of its class, so that about the last 50 count."""
_MOST_TEXTS: Final = 1024
_MOST_TOKENS: Final = 4096
_MOST_PLACES: Final = 8
"""Places that are looked at in one search, so that repeated text costs no more than other text."""

V = TypeVar("V")


class TokenTexts:
    """Text to tokens and back, of a vocabulary in which the texts of tokens concatenate. Thread-safe."""

    def __init__(self, token_bytes: Sequence[bytes], encode: Callable[[str], Sequence[int]]) -> None:
        """``token_bytes`` has the text of each token, empty for special ones; ``encode`` tokenizes a text."""
        self.token_bytes = token_bytes
        self._encode = encode
        self._bytes = {text[0]: token for token, text in enumerate(token_bytes) if len(text) == 1}

    def of(self, tokens: Sequence[int]) -> bytes:
        """Return the text of some tokens."""
        return b"".join([self.token_bytes[token] for token in tokens])

    def byte_token(self, byte: int) -> int | None:
        """Return the token whose whole text is one byte; None if there is none."""
        return self._bytes.get(byte)

    def tokenize(self, text: bytes) -> tuple[int, ...]:
        """Return the tokens of ``text`` as the model writes it, without a partial character at its end.

        Empty if the tokenizer changes the text, as some do with the first space.
        """
        whole = text.decode("utf-8", "ignore")
        tokens = tuple(self._encode(whole)) if whole else ()
        return tokens if self.of(tokens) == whole.encode() else ()


class TokenClass(NamedTuple):
    """Draft tokens whose acceptance is learned together."""

    kind: str
    prior: float
    """Probability of acceptance before any token of the class was verified."""
    detail: tuple[str | int, ...] = ()


class GrammarHistory:
    """What one app's grammar drafts have learned. Used on the engine thread only."""

    def __init__(self) -> None:
        """Begin without any draft."""
        self.values: Final = _Newest[bytes]()
        """The text that stood last behind a forced text, where the grammar left a choice."""
        self.splits: Final[dict[int, tuple[int, ...]]] = {}
        """The tokens that the model writes instead of one of the tokenizer's, such as those of a tag."""
        self._tokens = _Newest[tuple[int, ...]]()
        self._rates: dict[TokenClass, list[float]] = {}

    def tokenize(self, text: bytes, texts: TokenTexts) -> tuple[int, ...]:
        """Return the tokens in which the model writes ``text``.

        The tokenizer, which takes up to a millisecond, is asked once for each text.
        """
        tokens = self._tokens.get(text)
        if tokens is None:
            tokens = texts.tokenize(text)
            self._tokens.put(text, tokens)
        if not self.splits:
            return tokens
        return tuple(part for token in tokens for part in self.splits.get(token, (token,)))

    def probability(self, token_class: TokenClass) -> float:
        """Return the probability that a token of a class is accepted."""
        accepted, verified = self._rate(token_class)
        return accepted / verified

    def learn(self, token_class: TokenClass, *, accepted: bool) -> None:
        """Note that a token of a class was verified."""
        rate = self._rate(token_class)
        rate[0] = _MEMORY * rate[0] + accepted
        rate[1] = _MEMORY * rate[1] + 1.0

    def _rate(self, token_class: TokenClass) -> list[float]:
        return self._rates.setdefault(token_class, [token_class.prior * _PRIOR_TOKENS, _PRIOR_TOKENS])


class _Newest(Generic[V]):
    """The values of the texts that were used last."""

    def __init__(self) -> None:
        self._values: OrderedDict[bytes, V] = OrderedDict()

    def get(self, text: bytes) -> V | None:
        """Return the value of ``text``; None if there is none."""
        value = self._values.get(text)
        if value is not None:
            self._values.move_to_end(text)
        return value

    def put(self, text: bytes, value: V) -> None:
        """Set the value of ``text``, and forget the text that was used the longest time ago, if need be."""
        self._values[text] = value
        self._values.move_to_end(text)
        if len(self._values) > _MOST_TEXTS:
            self._values.popitem(last=False)


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
