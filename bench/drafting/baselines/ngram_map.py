"""llama.cpp's n-gram map (``ngram-map-k``) with its defaults: 48 tokens behind an equal n-gram of 12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

KEY: Final = 12
WIDTH: Final = 48


class NgramMap:
    """Drafts what followed the last occurrence of the last twelve tokens, in the sequence itself only."""

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
        # The n-gram before this token: the one that ends with it has no continuation yet.
        if len(self._tokens) >= KEY:
            self._behind[tuple(self._tokens[-KEY:])] = len(self._tokens)
        self._tokens.append(token)

    def predict(self) -> Sequence[int]:
        """See :meth:`Predictor.predict`."""
        begin = self._behind.get(tuple(self._tokens[-KEY:]))
        return () if begin is None else self._tokens[begin : begin + WIDTH]
