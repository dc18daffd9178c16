"""How many draft tokens a batch verifies, by a curve of verification costs."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agentrt.priority import Priority
from agentrt.runtime.drafting.drafter import Draft
from agentrt.runtime.heg.kernel import BatchShape
from agentrt.runtime.scheduler.batch import ScheduledChunk
from agentrt.runtime.scheduler.draft_lengths import shorten_drafts
from agentrt.runtime.scheduler.sequence import Sequence

drafts = st.lists(st.lists(st.floats(0, 1), max_size=3).map(tuple), min_size=1, max_size=3)


def chunks_with(drafts: list[tuple[float, ...]]) -> list[ScheduledChunk]:
    chunks = []
    for number, probabilities in enumerate(drafts):
        draft = Draft(tuple(range(len(probabilities))), probabilities)
        sequence = Sequence(number, Priority.REACTIVE, [1, 2, 3], draft=draft)
        chunks.append(ScheduledChunk(sequence, 1, samples=True, draft=draft.tokens))
    return chunks


def lengths(drafts: list[tuple[float, ...]], token_s: float) -> list[int]:
    """Return the lengths that are left where a pass takes 10 ms, and ``token_s`` for each draft token."""
    chunks = chunks_with(drafts)
    bare = len(chunks)

    def seconds(shape: BatchShape) -> float:
        assert shape.logits_rows == shape.tokens
        return 0.01 + token_s * (shape.tokens - bare)

    shorten_drafts(chunks, seconds)
    return [len(chunk.draft) for chunk in chunks]


def test_a_free_token_is_always_verified() -> None:
    assert lengths([(0.1, 0.1)], token_s=0.0) == [2]


def test_a_token_that_costs_more_than_it_saves_is_not() -> None:
    assert lengths([(0.2, 0.2)], token_s=0.005) == [0]
    assert lengths([(0.9, 0.1)], token_s=0.005) == [1]


def test_the_likeliest_tokens_of_all_sequences_are_verified() -> None:
    assert lengths([(0.1, 0.9, 0.9), (0.9, 0.9, 0.1)], token_s=0.002) == [0, 2]


def test_certain_drafts_are_verified_whole() -> None:
    assert lengths([(1.0,) * 128], token_s=0.0007) == [128]


def test_without_drafts_nothing_is_estimated() -> None:
    chunks = chunks_with([(), ()])
    shorten_drafts(chunks, lambda shape: 1 / 0)
    assert [chunk.draft for chunk in chunks] == [(), ()]


@given(drafts, st.sampled_from([0.0001, 0.002, 0.01]))
def test_no_other_lengths_make_more_tokens_a_second(drafts: list[tuple[float, ...]], token_s: float) -> None:
    def rate(chosen: tuple[int, ...]) -> float:
        reached = [
            list(itertools.accumulate(draft[:length], lambda left, right: left * right))
            for draft, length in zip(drafts, chosen, strict=True)
        ]
        return (len(drafts) + sum(map(sum, reached))) / (0.01 + token_s * sum(chosen))

    best = max(map(rate, itertools.product(*(range(len(draft) + 1) for draft in drafts))))
    # All widths up to 4 are compared, and some of the larger ones.
    if sum(map(len, drafts)) <= 4:
        assert rate(tuple(lengths(drafts, token_s))) >= best * (1 - 1e-9)
