import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.examples.assistant.dates import parse_date, parse_days, parse_time
from agentrt.examples.assistant.errors import ToolError

WEDNESDAY = dt.date(2026, 11, 18)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("today", "2026-11-18"),
        ("tonight", "2026-11-18"),
        ("Tomorrow", "2026-11-19"),
        ("tomorrow evening", "2026-11-19"),
        ("the day after tomorrow", "2026-11-20"),
        ("yesterday", "2026-11-17"),
        ("Friday", "2026-11-20"),
        ("on Friday", "2026-11-20"),
        ("for friday.", "2026-11-20"),
        ("this Friday", "2026-11-20"),
        ("next Friday", "2026-11-20"),
        ("Wednesday", "2026-11-18"),
        ("next Wednesday", "2026-11-25"),
        ("Tuesday", "2026-11-24"),
        ("Thu", "2026-11-19"),
        ("December 24", "2026-12-24"),
        ("dec 24th", "2026-12-24"),
        ("Dec. 24", "2026-12-24"),
        ("24 December", "2026-12-24"),
        ("the 3rd of March", "2027-03-03"),
        ("on the 3rd of March 2030", "2030-03-03"),
        ("March 3, 2030", "2030-03-03"),
        ("November 18", "2026-11-18"),
        ("November 17", "2027-11-17"),
        ("February 29", "2028-02-29"),
        ("Thursday, December 24", "2026-12-24"),
        ("2026-12-24", "2026-12-24"),
        ("24.12.2026", "2026-12-24"),
        ("in 3 days", "2026-11-21"),
        ("in two weeks", "2026-12-02"),
        ("in a week", "2026-11-25"),
        ("next week", "2026-11-25"),
        ("this afternoon", "2026-11-18"),
        ("Friday evening", "2026-11-20"),
    ],
)
def test_dates(said: str, meant: str) -> None:
    assert parse_date(said, WEDNESDAY) == dt.date.fromisoformat(meant)


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [
        ("this week", "2026-11-18", "2026-11-22"),
        ("next week", "2026-11-23", "2026-11-29"),
        ("this weekend", "2026-11-21", "2026-11-22"),
        ("the weekend", "2026-11-21", "2026-11-22"),
        ("next weekend", "2026-11-28", "2026-11-29"),
        ("Friday", "2026-11-20", "2026-11-20"),
    ],
)
def test_days(said: str, first: str, last: str) -> None:
    assert parse_days(said, WEDNESDAY) == (dt.date.fromisoformat(first), dt.date.fromisoformat(last))


@pytest.mark.parametrize(
    "said",
    [
        "",
        "someday",
        "2026-02-30",
        "February 30",
        "12/24",
        "friyay",
        "t",
        "ma 3",
        "in many days",
        "the",
        "in 999 weekz",
    ],
)
def test_what_is_no_date_is_a_clear_error(said: str) -> None:
    with pytest.raises(ToolError, match=r"cannot understand the date .* say for example tomorrow"):
        parse_date(said, WEDNESDAY)


def test_a_day_beyond_the_calendar_is_a_clear_error() -> None:
    with pytest.raises(ToolError):
        parse_date("in 999 weeks", dt.date(9999, 1, 1))


@given(st.text())
def test_any_text_is_a_date_or_a_clear_error(said: str) -> None:
    try:
        parse_date(said, WEDNESDAY)
        parse_time(said)
    except ToolError:
        pass


@given(st.dates(), st.dates())
def test_iso_dates_are_themselves(day: dt.date, today: dt.date) -> None:
    assert parse_date(day.isoformat(), today) == day


@given(st.dates(max_value=dt.date(9990, 1, 1)), st.sampled_from(["Monday", "on Saturday", "next Sunday"]))
def test_weekdays_are_in_the_coming_week(today: dt.date, said: str) -> None:
    found = parse_date(said, today)
    assert found.strftime("%A") == said.split()[-1]
    assert (
        dt.timedelta(1 if "next" in said else 0) <= found - today <= dt.timedelta(7 if "next" in said else 6)
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("15:00", "15:00"),
        ("9:05", "09:05"),
        ("at 9", "09:00"),
        ("3pm", "15:00"),
        ("3:30 p.m.", "15:30"),
        ("12am", "00:00"),
        ("12 pm", "12:00"),
        ("17h30", "17:30"),
        ("7 o'clock", "07:00"),
        ("15h", "15:00"),
        ("9 in the morning", "09:00"),
        ("seven in the evening", "19:00"),
        ("half past three", "03:30"),
        ("quarter to one", "12:45"),
        ("ten o'clock", "10:00"),
        ("noon", "12:00"),
        ("Midnight", "00:00"),
    ],
)
def test_times(said: str, meant: str) -> None:
    assert parse_time(said) == dt.time.fromisoformat(meant)


@pytest.mark.parametrize("said", ["", "soon", "25:00", "12:60", "13pm", "15m", "3:5"])
def test_what_is_no_time_is_a_clear_error(said: str) -> None:
    with pytest.raises(ToolError, match="cannot understand the time"):
        parse_time(said)
