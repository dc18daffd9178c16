"""Rejected drafts are drafted again (sd.npu §3.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.drafting.acceptance import AcceptanceModel
from agentrt.runtime.drafting.reuse import ReuseDrafter, longest_agreement

VOCABULARY = 20


def verify(drafting: ReuseDrafter, draft: Sequence[int], predicted: Sequence[int]) -> None:
    """Verify ``draft`` as the output processor does, with a model that predicts ``predicted``."""
    drafting.observe(draft, np.eye(VOCABULARY, dtype=np.float32)[list(predicted)])
    for place, token in enumerate(predicted):
        drafting.append(token)
        if place == len(draft) or draft[place] != token:
            return


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_the_longest_agreement_behind_the_first_difference(pairs: list[tuple[int, int]]) -> None:
    draft, predicted = [a for a, _ in pairs], [b for _, b in pairs]
    found = longest_agreement(draft, predicted)
    first = next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))
    every = [
        range(begin, end)
        for begin in range(first + 1, len(pairs) + 1)
        for end in range(begin, len(pairs) + 1)
        if draft[begin:end] == predicted[begin:end]
    ]
    assert len(found) == max((len(each) for each in every), default=0)
    assert not found or found in every


@pytest.mark.parametrize("between", [(), (9,), (9, 8)], ids=["synonym", "one missing", "two missing"])
def test_a_segment_is_drafted_until_it_comes(between: tuple[int, ...]) -> None:
    """1 is taken in place of 7, and 2 3 4 follow, at once or some tokens later (Table 2)."""
    drafting = ReuseDrafter(AcceptanceModel())
    verify(drafting, [7, 2, 3, 4, 5], [1, 2, 3, 4, 6, 6])
    for token in between:
        drafted = drafting.draft().tokens
        assert drafted
        assert drafted == (2, 3, 4)[: len(drafted)]
        verify(drafting, drafted, [token, *[12] * len(drafted)])
    assert drafting.draft().tokens[0] == 2
    verify(drafting, [2], [2, 3])
    assert drafting.draft().tokens == (4,), "the answer has 2 3"


def test_a_segment_expires_when_it_was_verified_too_often() -> None:
    drafting = ReuseDrafter(AcceptanceModel())
    verify(drafting, [7, *range(2, 12)], [1, *range(2, 12), 0])
    drafted = 0
    while tokens := drafting.draft().tokens:
        drafted += len(tokens)
        drafting.append(19)
    assert 10 <= drafted <= 32


def test_a_segment_that_the_answer_leaves_is_dropped() -> None:
    drafting = ReuseDrafter(AcceptanceModel())
    verify(drafting, [7, 2, 3, 4], [1, 2, 3, 4, 5])
    assert drafting.draft().tokens == (2, 3, 4)
    drafting.append(2)
    drafting.append(9)
    assert not drafting.draft().tokens


def test_nothing_is_reused_of_a_draft_that_was_accepted_or_wholly_wrong() -> None:
    drafting = ReuseDrafter(AcceptanceModel())
    for draft, predicted in (([1, 2], [1, 2, 3]), ([1, 2], [5, 6, 7]), ([], [4])):
        verify(drafting, draft, predicted)
        assert not drafting.draft().tokens


def test_an_app_whose_segments_never_come_gets_none() -> None:
    drafting = ReuseDrafter(AcceptanceModel())
    for _ in range(60):
        verify(drafting, [7, 2, 3, 4], [1, 2, 3, 4, 5])
        drafting.draft()
        drafting.append(9)
    verify(drafting, [7, 2, 3, 4], [1, 2, 3, 4, 5])
    assert len(drafting.draft().tokens) <= 1
