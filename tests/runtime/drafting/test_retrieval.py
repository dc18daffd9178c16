"""Retrieval drafts: what followed the same tokens before, in the prompt, the answer and past answers."""

from __future__ import annotations

import math

import pytest

from agentrt.runtime.drafting.app_history import AppHistories, AppHistory, Evidence
from agentrt.runtime.drafting.retrieval import RetrievalDrafter
from agentrt.runtime.scheduler.draft import NO_DRAFT

SALT = b"an app"


def drafter(prompt: list[int], history: AppHistory | None = None) -> RetrievalDrafter:
    return RetrievalDrafter(prompt, 4096, history or AppHistory())


def drafted(source: RetrievalDrafter, *answer: int) -> list[int]:
    for token in answer:
        source.append(token)
    return list(source.draft().tokens)


def test_drafts_what_followed_in_the_prompt() -> None:
    source = drafter([*range(10, 30), 99])
    assert drafted(source, 12, 13)[:2] == [14, 15]
    assert drafted(source, 14, 15, 16)[:4] == [17, 18, 19, 20], "the match is longer now"


def test_nothing_is_drafted_where_nothing_matches() -> None:
    assert drafter([]).draft() == NO_DRAFT
    assert drafter([5]).draft() == NO_DRAFT
    assert drafted(drafter(list(range(50))), 70, 71) == []


def test_the_more_frequent_continuation_is_drafted() -> None:
    prompt = [1, 2, 7, 30, 1, 2, 7, 31, 1, 2, 8, 32]
    assert drafted(drafter(prompt), 1, 2)[0] == 7


def test_of_equally_frequent_continuations_the_newest_is_drafted() -> None:
    assert drafted(drafter([1, 2, 7, 30, 1, 2, 8, 31]), 1, 2)[0] == 8


def test_more_tokens_are_expected_behind_a_longer_match() -> None:
    text = list(range(100, 200))
    short, long = drafter([*text, 5, 6]), drafter([*text, 5, 6])
    short_draft, long_draft = drafted(short, 110, 111), drafted(long, *range(100, 112))
    assert short_draft[0] == long_draft[0] == 112
    assert long.draft().expected_tokens > short.draft().expected_tokens + 1


def test_past_answers_of_the_app_are_drafted_from() -> None:
    histories = AppHistories()
    histories.of(SALT).add([40, 41, 42, 43, 44, 45])
    assert drafted(drafter([1], histories.of(SALT)), 41, 42)[:2] == [43, 44]
    assert drafted(drafter([1], histories.of(b"another app")), 41, 42) == []
    assert drafted(drafter([1], histories.of(None)), 41, 42) == []


def test_no_draft_crosses_the_end_of_a_past_answer() -> None:
    history = AppHistory()
    history.add([40, 41, 42])
    history.add([50, 51, 52])
    assert drafted(drafter([1], history), 40, 41) == [42]


def test_what_another_app_stored_changes_no_draft() -> None:
    histories = AppHistories()
    alone = drafter(list(range(60)), AppHistories().of(SALT))
    for other in range(70):
        histories.of(b"other %d" % other).add([12, 13, 99, 99])
    beside = drafter(list(range(60)), histories.of(SALT))
    assert drafted(alone, 12, 13) == drafted(beside, 12, 13)
    assert alone.draft() == beside.draft()


def test_drafts_that_are_wrong_get_shorter_and_recover() -> None:
    history = AppHistory()
    source = drafter([value for _ in range(40) for value in (1, 2, 3, 4, 5, 6)], history)
    first = len(drafted(source, 1, 2))
    for unseen in range(1000, 1200):
        drafted(source, 1, 2)
        source.append(unseen)
    assert len(drafted(source, 1, 2)) < first
    for _ in range(400):
        drafted(source, 1, 2)
        for token in (3, 4, 5, 6):
            source.append(token)
    assert len(drafted(source, 1, 2)) >= first


def test_generations_of_a_history_are_dropped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrt.runtime.drafting.app_history._GENERATION_TOKENS", 10)
    history = AppHistory()
    for answer in range(6):
        history.add([100 + answer, 200 + answer, 300 + answer, 400 + answer])
    assert len(history.sources) == 2
    assert drafted(drafter([1], history), 105, 205)[:1] == [305]
    assert drafted(drafter([1], history), 100, 200) == []


def test_a_draft_goes_on_with_another_source_where_one_ends() -> None:
    text = list(range(200, 208))
    history = AppHistory()
    history.add([*text, 20, 21])
    source = drafter([*text[4:], 20, 21, 22, 23], history)
    assert drafted(source, *text)[:4] == [20, 21, 22, 23]


def test_no_token_is_drafted_that_is_hardly_ever_reached() -> None:
    source = drafter([7, *range(50)] * 3)
    for unseen in range(1000, 1400):
        for token in (7, unseen):
            assert math.prod(source.draft().probabilities) >= 0.02
            source.append(token)


def test_every_source_learns_from_the_next_token() -> None:
    history = AppHistory()
    history.add([10, 11, 12, 13, 30])
    source = drafter([12, 13, 40], history)
    evidence = Evidence(match_length=2, agreeing=1, total=1)
    before = history.of_prompts.probability(evidence)
    assert drafted(source, 10, 11, 12, 13)[0] == 30, "from the history, whose match is longer"
    source.append(30)
    assert history.of_prompts.probability(evidence) < before
