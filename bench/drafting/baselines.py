"""Published ways to draft from text: each predicts tokens, all of which the engine verifies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from agentrt.runtime.scheduler.draft import Draft


class Predictor(Protocol):
    """Predicts the next tokens of one sequence, as many as its paper says."""

    def append(self, token: int) -> None:
        """Note a token of the answer."""

    def predict(self) -> Sequence[int]:
        """Return the tokens to verify; none where nothing is predicted."""


Baseline: TypeAlias = Callable[[Sequence[int]], Predictor]
"""Begins one sequence with its prompt. What it keeps between sequences is the history of one app."""


class FixedWidthDrafter:
    """A baseline as a drafter: the engine verifies every predicted token, as the baseline's paper does."""

    reads_prompt = False
    alternatives: Sequence[Draft] = ()

    def observe_prompt(self, begin: int, logits: Any) -> None:
        """Never called."""

    def __init__(self, predictor: Predictor) -> None:
        from agentrt.runtime.scheduler.draft import Draft

        self.append = predictor.append
        self._predict = predictor.predict
        self._draft = Draft

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        """No baseline looks at logits."""

    def draft(self) -> Draft:
        tokens = tuple(self._predict())
        return self._draft(tokens, (1.0,) * len(tokens))


_SAM_WIDTH: Final = 15
_SHORTEST_MATCH: Final = 2
"""SAM leaves shorter matches to another drafter, which this side does not have."""
_SEPARATOR: Final = -1


class SuffixAutomaton:
    """The suffix automaton of a growing text: every substring is a path from state 0."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._end = [0]
        self._last = 0

    def append(self, token: int) -> None:
        """Add one token (Blumer et al.'s online construction)."""
        self.tokens.append(token)
        new = self._new_state({}, 0, self._length[self._last] + 1, len(self.tokens))
        state = self._last
        while state != -1 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        if state != -1:
            self._link[new] = self._state_of(state, token)
        self._last = new

    def repeated(self) -> tuple[int, int]:
        """Return the length of the longest suffix that occurred before, and the first position behind it."""
        state = max(0, self._link[self._last])
        return self._length[state], self._end[state]

    def follow(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Return the state and length of the longest match after ``token``, from those before it."""
        while state and token not in self._next[state]:
            state = self._link[state]
            length = self._length[state]
        if token in self._next[state]:
            return self._next[state][token], length + 1
        return 0, 0

    def end(self, state: int) -> int:
        """Return the first position behind the substrings of ``state``."""
        return self._end[state]

    def _new_state(self, edges: dict[int, int], link: int, length: int, end: int) -> int:
        self._next.append(edges)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1

    def _state_of(self, state: int, token: int) -> int:
        """Return the state of the longest substring of ``state`` and ``token``; split it off if needed."""
        target = self._next[state][token]
        if self._length[target] == self._length[state] + 1:
            return target
        copy = self._new_state(
            dict(self._next[target]), self._link[target], self._length[state] + 1, self._end[target]
        )
        self._link[target] = copy
        while state != -1 and self._next[state].get(token) == target:
            self._next[state][token] = copy
            state = self._link[state]
        return copy


class SuffixAutomatonDecoding:
    """SAM's drafts for the sequences of one app: from the sequence itself, and from the answers before it."""

    def __init__(self, width: int = _SAM_WIDTH) -> None:
        """Every draft has ``width`` tokens, unless the text ends before."""
        self._width = width
        self._history = SuffixAutomaton()
        self._answer: list[int] = []

    def __call__(self, prompt: Sequence[int]) -> _SuffixAutomatonSequence:
        """Begin a sequence; the answer of the one before is history now."""
        for token in self._answer:
            self._history.append(token)
        self._history.append(_SEPARATOR)
        self._answer = []
        return _SuffixAutomatonSequence(prompt, self._history, self._answer, self._width)


class _SuffixAutomatonSequence:
    def __init__(
        self, prompt: Sequence[int], history: SuffixAutomaton, answer: list[int], width: int
    ) -> None:
        self._own = SuffixAutomaton()
        self._history = history
        self._matched = (0, 0)
        self._width = width
        for token in prompt:
            self._add(token)
        self._answer = answer

    def append(self, token: int) -> None:
        self._add(token)
        self._answer.append(token)

    def predict(self) -> Sequence[int]:
        length, begin = self._own.repeated()
        tokens = self._own.tokens
        state, matched = self._matched
        if matched > length:
            length, begin, tokens = matched, self._history.end(state), self._history.tokens
        if length < _SHORTEST_MATCH:
            return ()
        following = tokens[begin : begin + self._width]
        return following[: following.index(_SEPARATOR)] if _SEPARATOR in following else following

    def _add(self, token: int) -> None:
        self._own.append(token)
        self._matched = self._history.follow(*self._matched, token)


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
        self._history = FrequencyTree()
        self._answer: list[int] = []

    def __call__(self, prompt: Sequence[int]) -> _SuffixDecodingSequence:
        """Begin a sequence; the answer of the one before is history now."""
        for token in self._answer:
            self._history.append(token)
        self._history.separate()
        self._answer = []
        return _SuffixDecodingSequence(prompt, self._history, self._answer)


class _SuffixDecodingSequence:
    def __init__(self, prompt: Sequence[int], history: FrequencyTree, answer: list[int]) -> None:
        self._own = FrequencyTree()
        self._history = history
        self._last = list(prompt[-_DEPTH:])
        self._answer = answer
        for token in prompt:
            self._own.append(token)

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
