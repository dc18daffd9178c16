"""The baselines draft what their papers draft."""

from __future__ import annotations

import random
from collections import abc

import pytest

from agentrt.bench.drafting.baselines import SuffixAutomaton, SuffixAutomatonDecoding, SuffixDecoding


def longest_repeated_suffix(tokens: abc.Sequence[int]) -> tuple[int, int]:
    """By comparing with every earlier place: the length, and the position behind its first occurrence."""
    for length in range(len(tokens) - 1, 0, -1):
        for end in range(length, len(tokens)):
            if tokens[end - length : end] == tokens[len(tokens) - length :]:
                return length, end
    return 0, 0


def test_the_automaton_finds_the_longest_suffix_that_occurred_before() -> None:
    draw = random.Random(0)
    for _ in range(60):
        automaton, tokens = SuffixAutomaton(), list[int]()
        for token in draw.choices(range(3), k=24):
            tokens.append(token)
            automaton.append(token)
            length, end = longest_repeated_suffix(tokens)
            assert automaton.repeated() == (length, end if length else 0)


def test_the_automaton_follows_another_text() -> None:
    draw = random.Random(1)
    for _ in range(60):
        history = draw.choices(range(3), k=20)
        automaton = SuffixAutomaton()
        for token in history:
            automaton.append(token)
        text, match = list[int](), (0, 0)
        for token in draw.choices(range(4), k=20):
            text.append(token)
            match = automaton.follow(*match, token)
            longest = max(
                length
                for length in range(len(text) + 1)
                if any(history[at : at + length] == text[len(text) - length :] for at in range(len(history)))
            )
            assert match[1] == longest
            end = automaton.end(match[0])
            assert history[end - longest : end] == text[len(text) - longest :]


def test_sam_drafts_from_its_prompt_and_from_earlier_answers() -> None:
    sam = SuffixAutomatonDecoding(4)
    first = sam([7, 8, 1, 2, 3, 4, 5, 6, 7, 8])
    assert list(first.predict()) == [1, 2, 3, 4]
    for token in (20, 21, 22, 23):
        first.append(token)
    second = sam([40, 41])
    assert list(second.predict()) == []
    second.append(20)
    second.append(21)
    assert list(second.predict()) == [22, 23]  # no further: another answer begins there
    assert list(SuffixAutomatonDecoding(4)([40, 20, 21]).predict()) == []  # another app


def test_suffix_decoding_takes_the_most_frequent_continuation_as_long_as_its_match() -> None:
    prompt = [1, 2, 3, 9, 1, 2, 4, 8, 1, 2, 4, 7, 1, 2]
    drafted = list(SuffixDecoding()(prompt).predict())
    assert drafted[0] == 4  # follows 1 2 twice, 3 once
    assert len(drafted) == 2  # the match has two tokens
    decoding = SuffixDecoding()
    first = decoding([50, 51])
    for token in (1, 2, 3, 4, 5, 6):
        first.append(token)
    second = decoding([60])
    for token in (1, 2, 3):
        second.append(token)
    assert list(second.predict()) == [4, 5, 6]
    assert list(decoding([60, 61]).predict()) == []


@pytest.mark.parametrize("prompt", [[1], [1] * 400])
def test_short_and_repetitive_prompts(prompt: list[int]) -> None:
    for baseline in (SuffixAutomatonDecoding(), SuffixDecoding()):
        predicted = list(baseline(prompt).predict())
        assert predicted == [1] * len(predicted)
