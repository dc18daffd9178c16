"""Texts made to be slow: a search takes a bounded number of steps, and drafts stay bounded."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import pytest

from agentrt.runtime.drafting.app_history import AppHistory
from agentrt.runtime.drafting.history_store import MAX_TOKENS
from agentrt.runtime.drafting.retrieval import RetrievalDrafter
from agentrt.runtime.drafting.suffix_index import MAX_MATCH, SuffixIndex
from agentrt.runtime.scheduler.draft import NO_DRAFT

ORDERS = 4
CANDIDATES = 32
STEPS = 200


def repeated(*tokens: int) -> Callable[[int], list[int]]:
    return lambda length: list(islice(cycle(tokens), length))


def de_bruijn(length: int) -> list[int]:
    """Return a text in which every four of eight tokens occur once before any occurs again."""
    sequence: list[int] = []

    def extend(place: int, period: int, word: list[int]) -> None:
        if place > 4:
            if 4 % period == 0:
                sequence.extend(word[1 : period + 1])
            return
        word[place] = word[place - period]
        extend(place + 1, period, word)
        for token in range(word[place - period] + 1, 8):
            word[place] = token
            extend(place + 1, place, word)

    extend(1, 1, [0] * 5)
    return list(islice(cycle(sequence), length))


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
    "de Bruijn": de_bruijn,
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
    drafter = RetrievalDrafter(tokens, 6000, history)
    for token in tokens[:100]:
        drafter.append(token)
        draft = drafter.draft()
        assert len(draft.tokens) == len(draft.probabilities) <= 32
        assert set(draft.tokens) <= set(tokens)
        assert all(0 <= probability <= 1 for probability in draft.probabilities)


@pytest.mark.parametrize("prompt", [[], [5], [5, 5]])
def test_next_to_no_text(prompt: list[int]) -> None:
    drafter = RetrievalDrafter(prompt, 4, AppHistory())
    drafter.draft()
    drafter.append(9)
    assert drafter.draft() == NO_DRAFT
    for _ in range(20):  # beyond what it was made for
        drafter.append(9)
    assert set(drafter.draft().tokens) == {9}


def test_a_long_history() -> None:
    history = AppHistory()
    answer = [place * 7919 % 32_000 for place in range(100_000)]
    history.add(answer)
    history.restore([*answer[:MAX_TOKENS], -1])
    drafter = RetrievalDrafter([1, 2, 3], 100, history)
    for token in answer[50_000:50_040]:
        drafter.append(token)
    assert list(drafter.draft().tokens)[:3] == answer[50_040:50_043]
    assert history.memory_bytes <= 200 * 2 * len(answer)
