"""Retrieval drafts: what followed the last tokens when they occurred before (sd.npu §2.2, §4.1)."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..scheduler.draft import LEAST_REACHED, Draft
from .acceptance import Evidence
from .app_history import AppHistory, Source
from .drafter import Drafter
from .suffix_index import MAX_MATCH, SEPARATOR, SuffixIndex

_MOST_TOKENS: Final = 32
_MOST_OTHERS: Final = 3
"""Less frequent tokens behind a match that begin branches."""
_SHORTER: Final = (2, 1)
"""Tokens of the shorter matches that do."""


class _Occurrences(NamedTuple):
    """Where a text occurs in one source, and the token that follows most of these places."""

    source: Source
    length: int
    """Tokens of the text."""
    ends: Sequence[int]
    """The position behind each, the newest first."""
    following: Sequence[int]
    """The token at each of these positions."""
    token: int
    """The most frequent of them; of equally frequent ones the newest."""
    evidence: Evidence
    probability: float
    """How likely it is to be accepted."""

    def replaced(self, token: int, count: int) -> _Occurrences:
        """Return these with another token, which follows ``count`` of them."""
        evidence = self.evidence._replace(agreeing=count)
        probability = self.source.acceptance.probability(evidence)
        return self._replace(token=token, evidence=evidence, probability=probability)

    def followed_by(self, token: int) -> _Occurrences | None:
        """Return where the text occurs with ``token`` behind it; None if nothing follows there."""
        ends = [end + 1 for end, each in zip(self.ends, self.following, strict=True) if each == token]
        return _occurrences(self.source, self.length + 1, ends) if ends else None


def _occurrences(source: Source, length: int, ends: Sequence[int]) -> _Occurrences | None:
    following = source.index.following(ends)
    token = following[0]
    count = total = following.count(token)
    if count < len(following):
        counts = Counter(following)
        del counts[SEPARATOR]  # the end of an answer, or of the text
        token = max(counts, key=counts.__getitem__)
        count, total = counts[token], counts.total()
    elif token == SEPARATOR:
        return None
    evidence = Evidence(length, count, total)
    probability = source.acceptance.probability(evidence)
    return _Occurrences(source, length, ends, following, token, evidence, probability)


def _follow(candidates: Sequence[_Occurrences]) -> list[_Occurrences]:
    """Return the likeliest path; its last token may be too unlikely to be drafted."""
    path: list[_Occurrences] = []
    reached = 1.0
    while candidates and len(path) < _MOST_TOKENS and reached >= LEAST_REACHED:
        best = max(candidates, key=_probability)
        path.append(best)
        reached *= best.probability
        found = [each.followed_by(best.token) for each in candidates]
        candidates = [each for each in found if each is not None]
    return path


def _draft_of(path: Sequence[_Occurrences]) -> Draft:
    probabilities = tuple(each.probability for each in path)
    draft = Draft(tuple(each.token for each in path), probabilities)
    return draft if math.prod(probabilities) >= LEAST_REACHED else draft.first(len(path) - 1)


class RetrievalDrafter(Drafter):
    """Drafts for one sequence from its own tokens, and from what its app has generated before."""

    def __init__(
        self, prompt: Sequence[int], max_tokens: int, history: AppHistory, *, branches: bool = False
    ) -> None:
        """``max_tokens`` limits prompt and answer together; ``history`` is read, and learns acceptance.

        ``branches`` finds :attr:`alternatives`, too.
        """
        self._branches = branches
        self._prompt = prompt
        self._max_tokens = max_tokens
        self._history = history
        self._expected: list[list[_Occurrences]] = []
        """Tokens that may follow one after the other, to learn from those that do."""

    @functools.cached_property
    def _own(self) -> Source:
        # Built when the answer begins: indexing a long prompt takes milliseconds.
        return Source(SuffixIndex(self._max_tokens, self._prompt), self._history.of_prompts)

    def append(self, token: int) -> None:
        """See :meth:`Drafter.append`."""
        self._own.index.append(token)
        following = []
        for step, *later in self._expected:  # whether it was verified with a draft or not
            step.source.acceptance.learn(step.evidence, accepted=token == step.token)
            if token == step.token and later:
                following.append(later)
        self._expected = following

    def draft(self) -> Draft:
        """Return the likeliest path through the continuations in all sources.

        They begin behind the longest matches. Each token is that of the source whose most frequent token is
        the likeliest to be accepted; the other sources follow it as far as their occurrences agree.
        """
        candidates = self._longest_matches()
        self._expected = [[each] for each in candidates[1:]]
        path = _follow(candidates)
        if path:
            self._expected.append(path)
        if self._branches:
            self.alternatives = [_draft_of(_follow([each])) for each in self._beside(candidates)]
        return _draft_of(path)

    def _beside(self, candidates: Sequence[_Occurrences]) -> Iterator[_Occurrences]:
        """Yield other beginnings: less frequent tokens behind the longest matches, and shorter matches."""
        for each in candidates:
            counts = Counter(each.following)
            del counts[SEPARATOR], counts[each.token]
            for token, count in counts.most_common(_MOST_OTHERS):
                yield each.replaced(token, count)
        own = self._own.index
        for length in _SHORTER:
            match = own.longest_match(own.tokens(max(0, len(own) - length), len(own)))
            found = None if match is None else _occurrences(self._own, match.length, match.ends)
            if found is not None:
                yield found

    def _longest_matches(self) -> list[_Occurrences]:
        """Return where the last tokens occurred before in each source, the likeliest continuation first."""
        own = self._own.index
        end = len(own)
        text = own.tokens(max(0, end - MAX_MATCH), end)
        matches = [(self._own, own.longest_match(text))]
        matches += [(source, source.index.longest_match(text)) for source in self._history.sources]
        found = [
            _occurrences(source, match.length, match.ends) for source, match in matches if match is not None
        ]
        return sorted((each for each in found if each is not None), key=_probability, reverse=True)


def _probability(occurrences: _Occurrences) -> float:
    return occurrences.probability
