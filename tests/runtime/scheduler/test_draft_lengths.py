"""How many draft tokens a batch verifies, by a curve of verification costs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.priority import Priority
from agentrt.runtime.heg.kernel import BatchShape
from agentrt.runtime.scheduler.batch import ScheduledChunk
from agentrt.runtime.scheduler.draft import Draft
from agentrt.runtime.scheduler.draft_lengths import DraftLengths
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

    DraftLengths(reshape_s=0.0, drafts_alone=False).shorten(chunks, seconds)
    return [len(chunk.draft) for chunk in chunks]


@pytest.mark.parametrize(
    ("drafts", "token_s", "verified"),
    [
        ([(0.1, 0.1)], 0.0, [2]),
        ([(0.2, 0.2)], 0.005, [0]),
        ([(0.9, 0.1)], 0.005, [1]),
        ([(0.1, 0.9, 0.9), (0.9, 0.9, 0.1)], 0.002, [0, 2]),
        ([(1.0,) * 128], 0.0007, [128]),
    ],
)
def test_tokens_that_save_more_time_than_they_cost_are_verified(
    drafts: list[tuple[float, ...]], token_s: float, verified: list[int]
) -> None:
    assert lengths(drafts, token_s) == verified


@given(drafts, st.sampled_from([0.0001, 0.002, 0.01]))
def test_no_other_lengths_make_more_tokens_a_second(drafts: list[tuple[float, ...]], token_s: float) -> None:
    def rate(chosen: tuple[int, ...]) -> float:
        reached = [
            list(itertools.accumulate(draft[:length], lambda left, right: left * right))
            for draft, length in zip(drafts, chosen, strict=True)
        ]
        return (len(drafts) + sum(map(sum, reached))) / (0.01 + token_s * sum(chosen))

    best = max(map(rate, itertools.product(*(range(len(draft) + 1) for draft in drafts))))
    # All numbers of tokens up to 6 are compared, and some of the larger ones.
    if len(drafts) + sum(map(len, drafts)) <= 6:
        assert rate(tuple(lengths(drafts, token_s))) >= best * (1 - 1e-9)


def chosen(lengths: DraftLengths, draft: tuple[float, ...]) -> int:
    """Start a batch of one sequence; a pass takes 10 ms, and 1 ms for each token. Return its tokens."""
    chunks = chunks_with([draft])
    lengths.shorten(chunks, lambda shape: 0.01 + 0.001 * shape.tokens)
    tokens = 1 + len(chunks[0].draft)
    lengths.note(tokens)
    return tokens


LIKELY = (0.85, 0.95, 0.95)
CERTAIN = (1.0, 1.0, 1.0)
UNLIKELY = (0.01, 0.01, 0.01)


def test_the_number_of_tokens_stays_until_a_change_has_paid() -> None:
    lengths = DraftLengths(reshape_s=0.010, drafts_alone=False)
    assert chosen(lengths, LIKELY) == 4, "the first batch has no other one before it"
    tokens = [chosen(lengths, UNLIKELY) for _ in range(10)]
    assert tokens == [4, 4, 4, 1, 1, 1, 1, 1, 1, 1], "each pass with three tokens too many loses 3 ms"
    tokens = [chosen(lengths, LIKELY) for _ in range(5)]
    assert tokens == [1, 4, 4, 4, 4]


def test_a_draft_that_is_certain_takes_one_pass_whatever_it_costs() -> None:
    lengths = DraftLengths(reshape_s=10.0, drafts_alone=False)
    assert chosen(lengths, LIKELY[:1]) == 2
    assert chosen(lengths, CERTAIN) == 4


def test_a_prompt_chunk_between_two_batches_changes_the_shape_in_any_case() -> None:
    lengths = DraftLengths(reshape_s=10.0, drafts_alone=False)
    assert chosen(lengths, LIKELY) == 4
    lengths.note(512)
    assert chosen(lengths, UNLIKELY) == 1


@given(st.lists(st.lists(st.floats(0, 1), max_size=6).map(tuple), max_size=30), st.floats(0, 0.05))
def test_staying_loses_at_most_one_change_for_each_change(
    drafts: list[tuple[float, ...]], reshape_s: float
) -> None:
    lengths = DraftLengths(reshape_s, drafts_alone=False)
    lost = 0.0
    last = 0
    for draft in drafts:
        reached = list(itertools.accumulate(draft, lambda left, right: left * right))
        expected = list(itertools.accumulate(reached, initial=1.0))

        def seconds(tokens: int) -> float:
            return 0.01 + 0.001 * tokens

        best = max(range(1, len(expected) + 1), key=lambda each: expected[each - 1] / seconds(each))
        tokens = chosen(lengths, draft)
        if tokens != last:
            lost, last = 0.0, tokens
        else:
            lost += seconds(tokens) - expected[tokens - 1] * seconds(best) / expected[best - 1]
        assert lost <= reshape_s + 1e-9
