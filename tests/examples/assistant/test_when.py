"""Days and times of day in what a person says."""

import datetime as dt
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.examples.assistant.dates import parse_days, parse_time
from agentrt.examples.assistant.when import days_in, first_day, said_when, times_in, without

WEDNESDAY = dt.date(2026, 11, 25)
SAID = """
dinner 7 pm Friday next week at 14:00. on the 5th half past three tomorrow, 12:30 noon in two days December
May Monday morning 24.12. 3pm, this weekend, sat down the sun AA0:00 9h
""".split()  # noqa: SIM905


@pytest.mark.parametrize(
    ("said", "days", "times"),
    [
        ("lunch on Friday at 12:30", ["Friday"], ["12:30"]),
        ("dinner Friday at 7 pm next week", ["Friday next week"], ["7 pm"]),
        ("at 4 December", ["4 December"], []),
        ("Monday, 9h and tuesday,\n10h", ["Monday", "tuesday"], ["9h", "10h"]),
        ("version 12.30.1, AA0:00 and 0:00AA", [], []),
        ("this week", ["this week"], []),
        ("dinner at 12.30h", [], ["12:30h"]),
    ],
)
def test_days_and_times(said: str, days: list[str], times: list[str]) -> None:
    assert [day.said for day in days_in(said, WEDNESDAY)] == days
    assert [time.said for time in times_in(said)] == times


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("what is on in December?", "December"),
        ("June wants the recipe by Friday", "Friday"),
        ("may I see what Jan wrote", None),
        ("what about March?", "March"),
    ],
)
def test_a_name_is_a_month_where_one_can_stand(said: str, found: str | None) -> None:
    assert next((day.said for day in days_in(said, WEDNESDAY)), None) == found


def test_what_is_said_last_corrects_what_was_said_first() -> None:
    assert said_when("saturday at 3, no, sunday at 4 pm", WEDNESDAY) == ("sunday", "4 pm")
    assert said_when("saturday at 3, no, sunday at 4 pm", WEDNESDAY, last=False) == ("saturday", "3")
    assert said_when("next week", WEDNESDAY) == ("", "")
    assert first_day("this week or on Friday", WEDNESDAY) == "Friday"


@given(st.lists(st.tuples(st.sampled_from(SAID), st.sampled_from([" ", "  ", "\n", ", "]))))
@example([("Friday", "  "), ("7", " "), ("pm", "\n"), ("next", "  "), ("week", ". ")])
def test_what_is_found_is_read_stands_in_the_text_and_is_found_once(said: list[tuple[str, str]]) -> None:
    text = "".join(map("".join, said))
    days, times = days_in(text, WEDNESDAY), times_in(text)
    for day in days:
        assert parse_days(day.said, WEDNESDAY) == (day.first, day.last)
        assert text[day.start : day.end].split()[0].startswith(day.said.split()[0])
        assert text[day.start : day.end].endswith(day.said.split()[-1])
    for time in times:
        assert parse_time(time.said) == time.time
        assert time.said.replace(":", "") in text[time.start : time.end].replace(":", "").replace(".", "")
    for parts in (days, times):
        assert all(one.end <= other.start for one, other in pairwise(parts))
    left = without(text, [*days, *times])
    assert len(left) == len(text)
    assert not times_in(left)
