"""SuffixDecoding: the most frequent continuation of a match, as long as the match (its rule for lengths)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

_DEPTH: Final = 24
"""Most tokens of match and continuation together."""
_ALPHA: Final = 1.0
"""Most tokens of a draft for each token of its match."""
_LEAST_PROBABILITY: Final = 0.1
"""Frequency below which a token and those behind it are not drafted."""


class _Node:
    __slots__ = ("count", "next")

    def __init__(self) -> None:
        self.count = 0
        self.next: dict[int, _Node] = {}


class FrequencyTree:
    """How often each sequence of at most 24 tokens occurs in a text that grows."""

    def __init__(self) -> None:
        """Begin with the empty text."""
        self._root = _Node()
        self._open: list[_Node] = []

    def append(self, token: int) -> None:
        """Count the sequences that end with ``token``."""
        longer = []
        for node in [self._root, *self._open]:
            child = node.next.get(token)
            if child is None:
                child = node.next[token] = _Node()
            child.count += 1
            longer.append(child)
        self._open = longer[: _DEPTH - 1]

    def separate(self) -> None:
        """End a text: no sequence goes beyond."""
        self._open = []

    def matches(self, last: Sequence[int] | None = None) -> Iterable[tuple[int, _Node]]:
        """Yield the length of each suffix of ``last``, by default the text, that occurs, and its node."""
        if last is None:
            yield from enumerate(self._open, 1)
            return
        for length in range(1, min(len(last), _DEPTH - 1) + 1):
            node: _Node | None = self._root
            for token in last[-length:]:
                node = None if node is None else node.next.get(token)
            if node is None:
                return
            yield length, node


def _continuation(node: _Node, most: int) -> tuple[float, list[int]]:
    """Return the most frequent continuation behind ``node``, and the expected number of its right tokens."""
    tokens: list[int] = []
    reached, expected = 1.0, 0.0
    while node.next and len(tokens) < most:
        total = sum(child.count for child in node.next.values())
        token, child = max(node.next.items(), key=lambda item: item[1].count)
        reached *= child.count / total
        if reached < _LEAST_PROBABILITY:
            break
        expected += reached
        tokens.append(token)
        node = child
    return expected, tokens


class SuffixDecoding:
    """SuffixDecoding's drafts for the sequences of one app, from each sequence and the answers before it."""

    def __init__(self) -> None:
        """Begin without history."""
        self._history = FrequencyTree()
        self._answer: list[int] = []

    def __call__(self, prompt: Sequence[int]) -> _Sequence:
        """Begin a sequence; the answer of the one before is history now."""
        for token in self._answer:
            self._history.append(token)
        self._history.separate()
        self._answer = []
        return _Sequence(prompt, self._history, self._answer)


class _Sequence:
    def __init__(self, prompt: Sequence[int], history: FrequencyTree, answer: list[int]) -> None:
        self._own = FrequencyTree()
        self._history = history
        self._last = list(prompt[-_DEPTH:])
        self._answer = answer
        for token in prompt:
            self._own.append(token)

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        pass

    def append(self, token: int) -> None:
        self._own.append(token)
        self._last = [*self._last[1 - _DEPTH :], token]
        self._answer.append(token)

    def predict(self) -> Sequence[int]:
        found = [
            _continuation(node, int(_ALPHA * length))
            for tree in (self._own.matches(), self._history.matches(self._last))
            for length, node in tree
        ]
        return max(found, default=(0.0, []), key=lambda each: each[0])[1]
