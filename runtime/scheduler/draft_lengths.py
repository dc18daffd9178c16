"""How many draft tokens of each sequence a batch verifies: as many as are worth their time (sd.npu §2.3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..heg.kernel import BatchShape
from .batch import ScheduledChunk, shape_of

_WIDTHS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
"""Numbers of tokens in a batch that are compared, besides all and none of the draft tokens. They are few,
because a device is slower the first time that it computes a number of tokens."""


_NEARLY_CERTAIN: Final = 0.9
"""Likelihood of a draft token that is never left out to keep the number of tokens."""


class DraftLengths:
    """Cuts the drafts of batches so that they make the most tokens per second.

    A forward pass takes longer if it has another number of tokens than the one before it. So the number of
    tokens stays until the time that other numbers would have saved is what the change takes: that is never
    worse than twice the best that can be known afterwards (the ski rental problem).
    """

    def __init__(self, reshape_s: float, *, drafts_alone: bool) -> None:
        """``reshape_s`` is how much longer a forward pass with another number of tokens takes.

        With ``drafts_alone`` each draft token attends to its sequence by itself.
        """
        self.reshape_s = reshape_s
        self._drafts_alone = drafts_alone
        self._tokens = 0
        self._lost_s = 0.0

    def note(self, tokens: int) -> None:
        """Note that a batch of ``tokens`` tokens was started."""
        if tokens != self._tokens:
            self._tokens, self._lost_s = tokens, 0.0

    def shorten(self, chunks: list[ScheduledChunk], seconds: Callable[[BatchShape], float]) -> None:
        """Cut the drafts in ``chunks``.

        ``seconds`` estimates the time of a batch. The tokens that are the likeliest to be reached are
        verified, whichever sequence they are of.
        """
        order = sorted(_likelihoods(chunks), key=lambda each: -each[0])  # stable: a draft keeps its own order
        if not order:
            return
        bare = shape_of([chunk._replace(draft=()) for chunk in chunks], drafts_alone=self._drafts_alone)
        sampled = sum(chunk.samples for chunk in chunks)
        expected = list(itertools.accumulate((likely for likely, _ in order), initial=float(sampled)))

        def time_of(tokens: int) -> float:
            drafted = tokens - bare.tokens
            sequences = bare.sequences + drafted * self._drafts_alone
            past = bare.past_tokens * sequences // bare.sequences
            return seconds(BatchShape(tokens, sequences, past, bare.logits_rows + drafted))

        def rate(tokens: int) -> float:
            return expected[tokens - bare.tokens] / time_of(tokens)

        longest = bare.tokens + len(order)
        compared = [bare.tokens, *(each for each in _WIDTHS if bare.tokens < each < longest), longest]
        tokens = max(compared, key=rate)
        if self._may_stay(bare.tokens, tokens, [likely for likely, _ in order]):
            needed_s = expected[self._tokens - bare.tokens] / rate(tokens)
            self._lost_s += max(0.0, time_of(self._tokens) - needed_s)
            if self._lost_s < self.reshape_s:
                tokens = self._tokens
        _cut(chunks, [place for _, place in order[: tokens - bare.tokens]])

    def _may_stay(self, bare: int, tokens: int, likelihoods: Sequence[float]) -> bool:
        """Whether a batch can have the tokens of the one before, although ``tokens`` would be better."""
        if not bare <= self._tokens <= bare + len(likelihoods):
            return False
        if self._tokens < tokens:  # so that a draft that is nearly certain takes one forward pass
            return likelihoods[self._tokens - bare] < _NEARLY_CERTAIN
        return self._tokens > tokens


def _cut(chunks: list[ScheduledChunk], verified: list[int]) -> None:
    """Leave in each chunk as many draft tokens as its place is in ``verified``."""
    for place, chunk in enumerate(chunks):
        chunks[place] = chunk._replace(draft=chunk.draft[: verified.count(place)])


def _likelihoods(chunks: list[ScheduledChunk]) -> Iterator[tuple[float, int]]:
    """Yield for each draft token how likely it is to be reached and accepted, and its chunk's place."""
    for place, chunk in enumerate(chunks):
        reached = 1.0
        for probability in chunk.sequence.draft.probabilities[: len(chunk.draft)]:
            reached *= probability
            yield reached, place
