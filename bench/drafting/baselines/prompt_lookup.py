"""Prompt lookup decoding (PLD): what followed the first occurrence of the last three, two or one tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_ORDERS: Final = (3, 2, 1)
_WIDTH: Final = 10


class PromptLookup:
    """PLD as published: n-grams of at most three tokens, ten tokens a draft, no history."""

    def __init__(self, prompt: Sequence[int]) -> None:
        """Begin a sequence with ``prompt``."""
        self._tokens: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}
        for token in prompt:
            self.append(token)

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        """See :meth:`Predictor.observe`; it needs no logits."""

    def append(self, token: int) -> None:
        """See :meth:`Predictor.append`."""
        # The n-grams before this token: those that end with it have no continuation yet.
        for order in _ORDERS:
            if len(self._tokens) >= order:
                self._behind.setdefault(tuple(self._tokens[-order:]), len(self._tokens))
        self._tokens.append(token)

    def predict(self) -> Sequence[int]:
        """See :meth:`Predictor.predict`."""
        for order in _ORDERS:
            begin = self._behind.get(tuple(self._tokens[-order:]))
            if begin is not None:
                return self._tokens[begin : begin + _WIDTH]
        return ()
