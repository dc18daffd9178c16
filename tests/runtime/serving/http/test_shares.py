"""Places of apps, and places for those that come first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.serving.http.admission import Shares


def taken_by(shares: Shares, app: str) -> int:
    count = 0
    while shares.take(app):
        count += 1
    return count


def test_a_single_app_has_all_places() -> None:
    for apps in ((), ("mine",)):
        assert taken_by(Shares(10, apps), "mine") == 10


def test_each_app_finds_its_own_places() -> None:
    shares = Shares(12, ("a", "b", "c"))
    assert [taken_by(shares, app) for app in "abc"] == [8, 2, 2]
    assert shares.taken == 12


def test_an_app_without_a_token_takes_common_places_only() -> None:
    shares = Shares(12, ("a", "b", "c"))
    assert [taken_by(shares, app) for app in ("user 0", "a")] == [6, 2]


def test_fewer_places_than_two_for_each_app_go_to_those_that_come_first() -> None:
    shares = Shares(11, "abcdef")
    assert [taken_by(shares, app) for app in "abcdef"] == [11, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("own", [3, 0])
def test_what_does_not_fit_takes_nothing(own: int) -> None:
    shares = Shares(12, ("a", "b"))
    assert shares.take("a", own)
    assert not shares.take("a", 10 - own)
    assert shares.taken == own
    assert shares.take("a", 9 - own)


@given(st.lists(st.tuples(st.sampled_from("abcx"), st.integers(1, 9), st.booleans()), max_size=60))
def test_in_any_order(steps: list[tuple[str, int, bool]]) -> None:
    shares, taken = Shares(24, "abc"), Counter[str]()
    for app, places, gives in steps:
        if gives:
            places = min(places, taken[app])
            shares.give_back(app, places)
            taken[app] -= places
        else:
            own = app in "abc" and taken[app] + places <= 4
            got = shares.take(app, places)
            assert got or not own
            taken[app] += places if got else 0
        assert shares.taken == taken.total() <= 24
    for app, places in taken.items():
        shares.give_back(app, places)
    assert [taken_by(shares, app) for app in "xabc"] == [12, 4, 4, 4]
