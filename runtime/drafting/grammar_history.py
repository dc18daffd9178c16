"""What the grammar drafts of one app have in common: acceptance, earlier values, tokenizations."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, NamedTuple, TypeVar

from .token_texts import TokenTexts

_PRIOR_TOKENS: Final = 4.0
"""Verified tokens that the prior counts as much as."""
_MEMORY: Final = 0.98
"""Weight of what was learned after one more token of its class, so that about the last 50 count."""
_MOST_TEXTS: Final = 1024

V = TypeVar("V")


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
