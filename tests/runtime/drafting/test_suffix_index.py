"""The suffix index against a search by brute force, and its cost in memory and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.drafting.suffix_index import MAX_MATCH, Match, SuffixIndex

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


def test_repeated_text_compares_no_more_than_other_text() -> None:
    index = SuffixIndex(100_000, [5] * 100_000)
    match = index.longest_match([5] * MAX_MATCH)
    assert match is not None
    assert match.length == MAX_MATCH
    assert len(match.ends) == 32


def test_separators_end_no_match_across_answers() -> None:
    index = SuffixIndex(64, [1, 2, -1, 3, 4, -1])
    across = index.longest_match([2, 3])
    assert across is not None
    assert across.length == 1
    found = index.longest_match([9, 3, 4])
    assert found is not None
    assert found.length == 2


def test_bytes_a_token() -> None:
    index = SuffixIndex(32_768, [token * 7919 % 32_000 for token in range(32_768)])
    assert index.memory_bytes / 32_768 <= 40
