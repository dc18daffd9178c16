"""Retrieval drafts: what followed the same tokens before, in the prompt, the answer and past answers.

The suffix index is compared with a search by brute force; a search takes a bounded number of steps.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.drafting.acceptance import AcceptanceModel, Evidence
from agentrt.runtime.drafting.app_history import AppHistories, AppHistory
from agentrt.runtime.drafting.history_store import MAX_TOKENS
from agentrt.runtime.drafting.retrieval import RetrievalDrafter
from agentrt.runtime.drafting.suffix_index import MAX_MATCH, Match, SuffixIndex

SALT = b"an app"


def drafter(prompt: list[int], history: AppHistory | None = None) -> RetrievalDrafter:
    return RetrievalDrafter(prompt, 4096, history or AppHistory())


def drafted(source: RetrievalDrafter, *answer: int) -> list[int]:
    for token in answer:
        source.append(token)
    return list(source.draft().tokens)


@pytest.mark.parametrize(
    ("prompt", "answer", "expected"),
    [
        ([*range(10, 30), 99], (12, 13), [14, 15]),
        ([*range(10, 30), 99], (12, 13, 14, 15, 16), [17, 18, 19, 20]),
        ([1, 2, 7, 30, 1, 2, 7, 31, 1, 2, 8, 32], (1, 2), [7]),  # the most frequent
        ([1, 2, 7, 30, 1, 2, 8, 31], (1, 2), [8]),  # of equally frequent ones the newest
    ],
)
def test_what_followed_in_the_prompt_is_drafted(
    prompt: list[int], answer: tuple[int, ...], expected: list[int]
) -> None:
    assert drafted(drafter(prompt), *answer)[: len(expected)] == expected
    assert drafted(drafter(prompt), 70, 71) == []


def test_alternatives_are_less_frequent_tokens_and_shorter_matches() -> None:
    prompt = [1, 2, 7, 30, 1, 2, 7, 31, 1, 2, 8, 32, 33, 2, 9, 40, 5, 1, 2]
    source = RetrievalDrafter(prompt, 4096, AppHistory(), branches=True)
    assert source.draft().tokens[0] == 7
    assert [each.tokens[0] for each in source.alternatives] == [8, 7, 7], "behind 1 2, and behind 2 alone"
    source = RetrievalDrafter([*prompt[:-2], 33, 2], 4096, AppHistory(), branches=True)
    assert source.draft().tokens[0] == 9
    assert {each.tokens[0] for each in source.alternatives} == {9, 7}, "7 follows most places of 2"
    assert not drafter(prompt).alternatives, "they take time"


def test_more_tokens_are_expected_behind_a_longer_match() -> None:
    text = list(range(100, 200))
    short, long = drafter([*text, 5, 6]), drafter([*text, 5, 6])
    short_draft, long_draft = drafted(short, 110, 111), drafted(long, *range(100, 112))
    assert short_draft[0] == long_draft[0] == 112
    assert long.draft().expected_tokens > short.draft().expected_tokens + 1


def test_past_answers_of_the_app_are_drafted_from() -> None:
    histories = AppHistories()
    for answer in ([40, 41, 42, 43, 44, 45], [50, 51, 52]):
        histories.of(SALT).add(answer)
    assert drafted(drafter([1], histories.of(SALT)), 41, 42)[:2] == [43, 44]
    assert drafted(drafter([1], histories.of(SALT)), 43, 44) == [45], "no draft crosses the end of an answer"
    assert drafted(drafter([1], histories.of(b"another app")), 41, 42) == []
    assert drafted(drafter([1], histories.of(None)), 41, 42) == []


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


STEADY, CHANCE = Evidence(8, 4, 4), Evidence(1, 1, 1)


def evidences() -> st.SearchStrategy[Evidence]:
    totals = st.integers(1, 10_000)
    return totals.flatmap(
        lambda total: st.builds(Evidence, st.integers(1, 10_000), st.integers(1, total), st.just(total))
    )


def taught(*learned: tuple[Evidence, bool], times: int = 1) -> AcceptanceModel:
    model = AcceptanceModel()
    for _ in range(times):
        for evidence, accepted in learned:
            model.learn(evidence, accepted=accepted)
    return model


@given(st.lists(st.tuples(evidences(), st.booleans()), max_size=100), evidences(), st.integers(1, 8))
def test_longer_and_more_unanimous_matches_are_never_less_likely(
    learned: list[tuple[Evidence, bool]], evidence: Evidence, total: int
) -> None:
    model = taught(*learned)
    assert 0.0 <= model.probability(evidence) <= 1.0
    by_length = [model.probability(Evidence(length, total, total)) for length in range(1, 64)]
    by_count = [model.probability(Evidence(4, count, total)) for count in range(1, total + 1)]
    assert by_length == sorted(by_length)
    assert by_count == sorted(by_count)


def test_acceptance_is_learned_and_unlearned() -> None:
    model = AcceptanceModel()
    assert model.probability(STEADY) > 0.85
    first = model.probability(CHANCE)
    assert 0.2 < first < 0.5
    assert model.probability(Evidence(1, 1, 8)) < 0.1
    assert taught((CHANCE, False), times=20).probability(CHANCE) < first / 2, "nothing repeats: it shows soon"
    doubting = taught((STEADY, False), times=300)
    assert doubting.probability(STEADY) < 0.1
    for _ in range(300):
        doubting.learn(STEADY, accepted=True)
    assert doubting.probability(STEADY) > 0.9
    few, many = Evidence(4, 1, 1), Evidence(4, 4, 4)
    model = taught((few, False), (many, True), times=400)
    assert model.probability(few) < 0.4 < 0.6 < model.probability(many)


tokens = st.lists(st.integers(0, 3), max_size=60)  # few values, so that they repeat
parts = st.lists(tokens, max_size=5)


def built(texts: Sequence[Sequence[int]], capacity: int = 16) -> SuffixIndex:
    """Index texts, alternately in one go and token by token."""
    index = SuffixIndex(capacity)
    for place, text in enumerate(texts):
        if place % 2:
            for token in text:
                index.append(token)
        else:
            index.extend(text)
    return index


def longest(text: Sequence[int], last: Sequence[int]) -> int:
    """Return how many of the last tokens occur somewhere in a text, with a token behind them."""
    for length in range(min(len(last), MAX_MATCH), 0, -1):
        wanted = list(last[-length:])
        if any(list(text[at : at + length]) == wanted for at in range(len(text) - length)):
            return length
    return 0


def check(match: Match | None, text: Sequence[int], last: Sequence[int]) -> None:
    """Check that each occurrence is one, of the length that is said and no more, the newest first."""
    assert match is not None
    assert list(match.ends) == sorted(set(match.ends), reverse=True)
    for end in match.ends:
        assert list(text[end - match.length : end]) == list(last[-match.length :])


@given(parts, st.lists(st.integers(0, 3), max_size=12))
def test_finds_what_occurs(texts: list[list[int]], last: list[int]) -> None:
    text = [token for part in texts for token in part]
    match = built(texts).longest_match(last)
    expected = longest(text, last)
    if not expected:
        assert match is None
    else:
        check(match, text, last)
        assert match is not None
        # Only the 32 newest candidates are compared, of which a text this short may have more.
        assert match.length == expected or (len(text) > 32 and 1 <= match.length < expected)


@given(parts)
def test_extend_is_append_repeated(texts: list[list[int]]) -> None:
    one_by_one = SuffixIndex(16)
    for token in (token for part in texts for token in part):
        one_by_one.append(token)
    index = built(texts)
    assert len(index) == len(one_by_one)
    assert index.tokens(0, len(index)) == one_by_one.tokens(0, len(one_by_one))
    for length in (1, 2, 4, 8, 9):
        last = one_by_one.tokens(0, length)
        assert index.longest_match(last) == one_by_one.longest_match(last)


@given(tokens.filter(lambda text: len(text) > 2))
def test_the_end_of_the_index_itself_is_excluded(text: list[int]) -> None:
    match = SuffixIndex(64, text).longest_match(text)
    if match is not None:
        assert len(text) not in match.ends
        check(match, text, text)


def test_empty_and_one_token() -> None:
    assert SuffixIndex(1).longest_match([]) is None
    assert SuffixIndex(1, [7]).longest_match([7]) is None
    index = SuffixIndex(1, [7, 7])
    assert index.longest_match([7, 7]) == Match(1, (1,))
    index.append(8)
    assert index.longest_match([7, 7]) == Match(2, (2,))


def test_separators_end_no_match_across_answers() -> None:
    index = SuffixIndex(64, [1, 2, -1, 3, 4, -1])
    across, found = index.longest_match([2, 3]), index.longest_match([9, 3, 4])
    assert [each.length for each in (across, found) if each] == [1, 2]


ORDERS = 4
CANDIDATES = 32
STEPS = 200


def repeated(*tokens: int) -> Callable[[int], list[int]]:
    return lambda length: list(islice(cycle(tokens), length))


def almost_equal(length: int) -> list[int]:
    """Return a text whose matches are long, and all end by a different token."""
    return [token for run in range(length // 65 + 1) for token in (*[7] * 64, 1000 + run)][:length]


def one_bucket(length: int) -> list[int]:
    """Return different tokens whose hashes begin with the same bits."""
    inverse = pow(0x9E3779B1, -1, 2**32)
    tokens = ((place * inverse) % 2**32 for place in range(40 * length))
    return [token for token in tokens if token < 2**31][:length]


TEXTS: dict[str, Callable[[int], list[int]]] = {
    "aaaa": repeated(5),
    "abab": repeated(5, 6),
    "63 tokens": repeated(*range(63)),
    "almost equal": almost_equal,
    "one bucket": one_bucket,
}


class CountedArray(array):  # type: ignore[type-arg]
    """An array that counts the items read from it."""

    read = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.read += len(found) if isinstance(place, slice) else 1
        return found


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("length", [1000, 100_000])
def test_a_search_takes_a_bounded_number_of_steps(text: str, length: int) -> None:
    tokens = TEXTS[text](length + STEPS)
    index = SuffixIndex(length, tokens[:length])
    index._tokens = CountedArray("i", index._tokens)
    index._older = {order: CountedArray("i", chain) for order, chain in index._older.items()}
    for token in tokens[length:]:
        index.append(token)
        last = array("i", index.tokens(len(index) - MAX_MATCH, len(index)))
        read, links = index._tokens.read, sum(chain.read for chain in index._older.values())
        index.longest_match(last)
        assert index._tokens.read - read <= ORDERS * CANDIDATES * 2 * MAX_MATCH
        assert sum(chain.read for chain in index._older.values()) - links <= ORDERS * (CANDIDATES + 1)


@pytest.mark.parametrize("text", TEXTS)
def test_drafts_stay_bounded_and_follow_the_text(text: str) -> None:
    tokens = TEXTS[text](5000)
    history = AppHistory()
    history.add(tokens)
    source = RetrievalDrafter(tokens, 6000, history)
    for token in tokens[:100]:
        source.append(token)
        draft = source.draft()
        assert len(draft.tokens) == len(draft.probabilities) <= 32
        assert set(draft.tokens) <= set(tokens)
        assert all(0 <= probability <= 1 for probability in draft.probabilities)


@pytest.mark.parametrize("prompt", [[], [5], [5, 5]])
def test_next_to_no_text(prompt: list[int]) -> None:
    source = RetrievalDrafter(prompt, 4, AppHistory())
    source.draft()
    assert drafted(source, 9) == []
    assert set(drafted(source, *[9] * 20)) == {9}, "beyond what it was made for"


def test_a_long_history() -> None:
    history = AppHistory()
    answer = [place * 7919 % 32_000 for place in range(100_000)]
    history.add(answer)
    history.restore([*answer[:MAX_TOKENS], -1])
    source = RetrievalDrafter([1, 2, 3], 100, history)
    assert drafted(source, *answer[50_000:50_040])[:3] == answer[50_040:50_043]
    assert sum(each.index.memory_bytes for each in history.sources) <= 200 * 2 * len(answer)
