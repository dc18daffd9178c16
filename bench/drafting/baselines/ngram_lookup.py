"""Drafts by n-gram lookup: what followed the last tokens where they occurred before in the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class NgramLookup:
    """Drafts behind an earlier occurrence of the last tokens, in the sequence itself only."""

    def __init__(self, prompt: Sequence[int], *, orders: Sequence[int], width: int, newest: bool) -> None:
        """Begin a sequence with ``prompt``.

        The last tokens are looked up as n-grams of ``orders`` until one is found. A draft has ``width``
        tokens behind the newest occurrence, or behind the first one.
        """
        self._orders = orders
        self._width = width
        self._newest = newest
        self._tokens: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}
        for token in prompt:
            self.append(token)

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        """See :meth:`Predictor.observe`; it needs no logits."""

    def append(self, token: int) -> None:
        """See :meth:`Predictor.append`."""
        # The n-grams before this token: those that end with it have no continuation yet.
        for order in self._orders:
            ngram = tuple(self._tokens[-order:])
            if len(ngram) == order and (self._newest or ngram not in self._behind):
                self._behind[ngram] = len(self._tokens)
        self._tokens.append(token)

    def predict(self) -> Sequence[int]:
        """See :meth:`Predictor.predict`."""
        for order in self._orders:
            begin = self._behind.get(tuple(self._tokens[-order:]))
            if begin is not None:
                return self._tokens[begin : begin + self._width]
        return ()


def prompt_lookup(prompt: Sequence[int]) -> NgramLookup:
    """Begin prompt lookup decoding (PLD) as published: n-grams of at most three tokens, drafts of ten."""
    return NgramLookup(prompt, orders=(3, 2, 1), width=10, newest=False)


def ngram_map(prompt: Sequence[int]) -> NgramLookup:
    """Begin llama.cpp's n-gram map (``ngram-map-k``) with its defaults: keys of 12 tokens, drafts of 48."""
    return NgramLookup(prompt, orders=(12,), width=48, newest=True)
