"""SAM decoding: what followed the longest suffix that occurred before, found by a suffix automaton."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

WIDTH: Final = 15
_SHORTEST_MATCH: Final = 2
"""SAM leaves shorter matches to another drafter, which this side does not have."""
_SEPARATOR: Final = -1


class SuffixAutomaton:
    """The suffix automaton of a growing text: every substring is a path from state 0."""

    def __init__(self) -> None:
        """Begin with the empty text."""
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

    def __init__(self, width: int = WIDTH) -> None:
        """Every draft has ``width`` tokens, unless the text ends before."""
        self._width = width
        self._history = SuffixAutomaton()
        self._answer: list[int] = []

    def __call__(self, prompt: Sequence[int]) -> _Sequence:
        """Begin a sequence; the answer of the one before is history now."""
        for token in self._answer:
            self._history.append(token)
        self._history.append(_SEPARATOR)
        self._answer = []
        return _Sequence(prompt, self._history, self._answer, self._width)


class _Sequence:
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

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        pass

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
