"""Several sources of drafts: the best draft is taken, and a source that fails costs its own drafts only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from agentrt.runtime.drafting.drafter import Drafter, DraftSources
from agentrt.runtime.scheduler.draft import NO_DRAFT, Draft

VOCABULARY = 100
LOGITS = np.zeros((1, VOCABULARY), np.float32)


class Fixed(Drafter):
    """Drafts the same at all times, or raises in one of its methods."""

    def __init__(self, draft: Draft, fails_in: str = "") -> None:
        self.fixed = draft
        self.fails_in = fails_in
        self.appended: list[int] = []

    def _maybe_fail(self, method: str) -> None:
        if method == self.fails_in:
            raise RuntimeError("broken")

    def observe(self, verified: Sequence[int], logits: Any) -> None:
        self._maybe_fail("observe")

    def append(self, token: int) -> None:
        self._maybe_fail("append")
        self.appended.append(token)

    def draft(self) -> Draft:
        self._maybe_fail("draft")
        return self.fixed


SHORT = Draft((1, 2), (1.0, 1.0))
LONG = Draft((3, 4, 5), (0.5, 0.5, 0.5))


def test_the_draft_with_the_most_expected_tokens_is_taken() -> None:
    assert DraftSources([Fixed(LONG), Fixed(SHORT)], VOCABULARY).draft() == SHORT
    assert DraftSources([Fixed(NO_DRAFT), Fixed(LONG)], VOCABULARY).draft() == LONG
    assert DraftSources([Fixed(NO_DRAFT)], VOCABULARY).draft() == NO_DRAFT
    same = Draft((7, 8), (1.0, 1.0))
    assert DraftSources([Fixed(same), Fixed(SHORT)], VOCABULARY).draft() == same


@pytest.mark.parametrize("method", ["observe", "append", "draft"])
def test_a_source_that_raises_is_used_no_more(method: str, caplog: pytest.LogCaptureFixture) -> None:
    broken, good = Fixed(SHORT, fails_in=method), Fixed(LONG)
    sources = DraftSources([broken, good], VOCABULARY)
    for _ in range(3):
        sources.observe((), LOGITS)
        sources.append(9)
        assert sources.draft() == LONG
    assert good.appended == [9, 9, 9]
    assert [record.getMessage() for record in caplog.records] == [
        "Fixed failed; this answer goes on without its drafts."
    ]


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2**40])
def test_tokens_outside_the_vocabulary_end_their_source(token: int) -> None:
    sources = DraftSources([Fixed(Draft((1, token), (1.0, 1.0))), Fixed(LONG)], VOCABULARY)
    assert sources.draft() == LONG
    assert sources.draft() == LONG


def test_expected_tokens() -> None:
    assert LONG.expected_tokens == 0.875
    assert LONG.first(1) == Draft((3,), (0.5,))
    assert LONG.first(3) is LONG
