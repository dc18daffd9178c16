"""Token Recycling: the likeliest token behind each token as the model's logits said last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_WIDTH: Final = 6
"""The depth of the paper's tree, of which a list has the likeliest path."""


class TokenRecycling:
    """Drafts from an adjacency matrix of tokens, kept from sequence to sequence.

    The paper verifies a tree of several successors of each token. The engine verifies lists, so that only the
    likeliest successor is kept.
    """

    def __init__(self) -> None:
        """Begin with an empty matrix."""
        self._successor: dict[int, int] = {}

    def __call__(self, prompt: Sequence[int]) -> _Sequence:
        """Begin a sequence."""
        return _Sequence(prompt[-1], self._successor)


class _Sequence:
    def __init__(self, last: int, successor: dict[int, int]) -> None:
        self._last = last
        self._successor = successor

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        following = logits.argmax(axis=-1).tolist()
        self._successor.update(zip((self._last, *verified), following, strict=True))

    def append(self, token: int) -> None:
        self._last = token

    def predict(self) -> Sequence[int]:
        tokens: list[int] = []
        token = self._last
        while len(tokens) < _WIDTH and token in self._successor:
            token = self._successor[token]
            tokens.append(token)
        return tokens
