"""How many draft tokens of each sequence a batch verifies: as many as are worth their time (sd.npu §2.3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final

from ..heg.kernel import BatchShape
from .batch import ScheduledChunk, shape_of

_WIDTHS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of draft tokens in a batch that are compared."""


def shorten_drafts(chunks: list[ScheduledChunk], seconds: Callable[[BatchShape], float]) -> None:
    """Cut the drafts in ``chunks`` so that the batch makes the most tokens per second.

    ``seconds`` estimates the time of a batch. The tokens that are the likeliest to be reached are verified,
    whichever sequence they are of.
    """
    order = sorted(_likelihoods(chunks), key=lambda each: -each[0])  # stable: a draft keeps its own order
    if not order:
        return
    bare = shape_of([chunk._replace(draft=()) for chunk in chunks])
    sampled = sum(chunk.samples for chunk in chunks)
    expected = list(itertools.accumulate((likely for likely, _ in order), initial=float(sampled)))

    def tokens_per_second(width: int) -> float:
        shape = BatchShape(bare.tokens + width, bare.sequences, bare.past_tokens, bare.logits_rows + width)
        return expected[width] / seconds(shape)

    widths = [0, *(width for width in _WIDTHS if width < len(order)), len(order)]
    best = max(widths, key=tokens_per_second)
    lengths = [0] * len(chunks)
    for _, place in order[:best]:
        lengths[place] += 1
    for place, length in enumerate(lengths):
        chunks[place] = chunks[place]._replace(draft=chunks[place].draft[:length])


def _likelihoods(chunks: list[ScheduledChunk]) -> Iterator[tuple[float, int]]:
    """Yield for each draft token how likely it is to be reached and accepted, and its chunk's place."""
    for place, chunk in enumerate(chunks):
        reached = 1.0
        for probability in chunk.sequence.draft.probabilities[: len(chunk.draft)]:
            reached *= probability
            yield reached, place
