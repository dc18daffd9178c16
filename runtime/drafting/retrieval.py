"""Retrieval drafts: what followed the last tokens when they occurred before (sd.npu §2.2, §4.1)."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .app_history import SEPARATOR, AppHistory, Source
from .drafter import NO_DRAFT, Draft, Drafter
from .suffix_index import MAX_MATCH, Match, SuffixIndex

_MOST_TOKENS: Final = 32
_LEAST_REACHED: Final = 0.05
"""Probability of being reached below which a token is not drafted: its verification never pays."""


class _Retrieved:
    """A draft from one source, and how far the tokens appended since have followed it."""

    def __init__(self, source: Source, draft: Draft, classes: tuple[int, ...]) -> None:
        """``classes`` are those of the draft's tokens in the acceptance rates of ``source``."""
        self.draft = draft
        self._rates = source.rates
        self._classes = classes
        self._followed = 0

    def learn(self, token: int) -> bool:
        """Learn from the next token, whether it was verified with the draft or not.

        Returns:
            Whether the draft has further tokens to learn from.
        """
        place = self._followed
        right = token == self.draft.tokens[place]
        self._rates.learn(self._classes[place], accepted=right)
        self._followed += 1
        return right and self._followed < len(self._classes)


class RetrievalDrafter(Drafter):
    """Drafts for one sequence from its own tokens, and from what its app has generated before."""

    def __init__(self, prompt: Sequence[int], max_tokens: int, history: AppHistory) -> None:
        """``max_tokens`` limits prompt and answer together; ``history`` is read, and learns acceptance."""
        self._prompt = prompt
        self._max_tokens = max_tokens
        self._history = history
        self._last: list[_Retrieved] = []

    @functools.cached_property
    def _own(self) -> Source:
        # Built when the answer begins: indexing a long prompt takes milliseconds.
        return Source(SuffixIndex(self._max_tokens, self._prompt), self._history.prompt_rates)

    def observe(self, verified: Sequence[int], logits: NDArray[np.float32]) -> None:
        """See :meth:`Drafter.observe`; it needs no logits."""

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        self._own.index.append(token)
        if self._last:
            self._last = [each for each in self._last if each.learn(token)]

    def draft(self) -> Draft:
        """Return the continuation of which the most tokens are expected to be accepted."""
        index = self._own.index
        end = len(index)
        text = index.tokens(max(0, end - MAX_MATCH), end)
        matches = [(self._own, index.longest_match(text))]
        matches += [(source, source.index.longest_match(text)) for source in self._history.sources]
        found = [_likeliest_continuation(source, match) for source, match in matches if match is not None]
        self._last = [each for each in found if each.draft.tokens]
        return max((each.draft for each in self._last), key=_expected_tokens, default=NO_DRAFT)


def _expected_tokens(draft: Draft) -> float:
    return draft.expected_tokens


def _likeliest_continuation(source: Source, match: Match) -> _Retrieved:
    """Return the likeliest path through the tree of the continuations of ``match`` (SuffixDecoding's tree).

    At each step it takes the token that follows most of the occurrences left on the path, the newest one of
    equally frequent.
    """
    texts: Sequence[Sequence[int]] = [source.index.tokens(end, end + _MOST_TOKENS) for end in match.ends]
    tokens: list[int] = []
    classes: list[int] = []
    probabilities: list[float] = []
    reached = 1.0
    for depth in range(_MOST_TOKENS):
        following = Counter([text[depth] for text in texts if depth < len(text)])
        if not following:
            break
        token, count = following.most_common(1)[0]  # of equal counts the first, which is the newest
        if token == SEPARATOR:
            break
        token_class = source.rates.classify(match.length + depth, count, following.total())
        probability = source.rates.probability(token_class)
        reached *= probability
        if reached < _LEAST_REACHED:
            break
        tokens.append(token)
        classes.append(token_class)
        probabilities.append(probability)
        if count < len(texts):
            texts = [text for text in texts if depth < len(text) and text[depth] == token]
    return _Retrieved(source, Draft(tuple(tokens), tuple(probabilities)), tuple(classes))
