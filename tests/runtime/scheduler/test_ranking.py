from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.scheduler.fair_queue import Ranking


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 50))))
def test_items_are_sorted_by_their_last_keys(changes: list[tuple[int, int | None]]) -> None:
    ranking: Ranking[int] = Ranking()
    keys: dict[int, tuple[int, int]] = {}
    for item, key in changes:
        if key is None:
            ranking.discard(item)
            keys.pop(item, None)
        else:
            keys[item] = (key, item)
            ranking.put(item, keys[item])
    expected = sorted(keys, key=keys.__getitem__)
    assert ranking.first(100) == expected
    assert ranking.first(2) == expected[:2]
    assert [ranking[place] for place in range(len(ranking))] == expected
    assert all(item in ranking and ranking.key(item) == key for item, key in keys.items())
    ranking.check_integrity()


def test_a_key_that_changes_behind_its_back_is_found() -> None:
    ranking: Ranking[str] = Ranking()
    key = [1]
    ranking.put("first", key)
    ranking.put("second", [2])
    key[0] = 3
    with pytest.raises(AssertionError, match="not sorted"):
        ranking.check_integrity()


class CountedKey:
    """A key that counts how often keys are compared."""

    compared = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: CountedKey) -> bool:
        CountedKey.compared += 1
        return self.value < other.value


def test_one_of_many_is_moved_in_few_comparisons() -> None:
    ranking: Ranking[int] = Ranking()
    for item in range(8192):
        ranking.put(item, CountedKey(2 * item))
    CountedKey.compared = 0
    ranking.put(17, CountedKey(9001))
    assert CountedKey.compared <= 2 * 14
