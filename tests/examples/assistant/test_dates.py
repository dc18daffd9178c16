import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.examples.assistant.dates import parse_date, parse_days, parse_time
from agentrt.examples.assistant.errors import ToolError

WEDNESDAY = dt.date(2026, 11, 18)
DATES = {
    "2026-11-17": ["yesterday"],
    "2026-11-18": ["today", "tonight", "Wednesday", "November 18", "this afternoon"],
    "2026-11-19": ["Tomorrow", "tomorrow evening", "Thu", "tomorow", "thrusday"],
    "2026-11-20": [
        *("the day after tomorrow", "Friday", "on Friday", "for friday.", "this Friday"),
        "Friday evening",
    ],
    "2026-11-21": ["in 3 days"],
    "2026-11-24": ["Tuesday"],
    "2026-11-25": ["next Wednesday", "in a week", "next week"],
    "2026-12-02": ["in two weeks", "two weeks today"],
    "2026-11-27": ["a week on Friday", "a week from Friday", "Friday week", "next Friday"],
    "2026-12-24": [
        *("December 24", "dec 24th", "Dec. 24", "24 December", "Thursday, December 24"),
        *("2026-12-24", "24.12.2026", "12/24", "24/12/2026"),
    ],
    "2027-03-03": ["the 3rd of March"],
    "2027-09-03": ["sept 3"],
    "2027-11-17": ["November 17"],
    "2028-02-29": ["February 29"],
    "2030-03-03": ["on the 3rd of March 2030", "March 3, 2030"],
}
DAYS = {
    "this week": "2026-11-18 2026-11-22",
    "next week": "2026-11-23 2026-11-29",
    "this weekend": "2026-11-21 2026-11-22",
    "the weekend": "2026-11-21 2026-11-22",
    "next weekend": "2026-11-28 2026-11-29",
    "Friday": "2026-11-20 2026-11-20",
    "the rest of the week": "2026-11-18 2026-11-22",
    "December": "2026-12-01 2026-12-31",
    "this month": "2026-11-18 2026-11-30",
    "next month": "2026-12-01 2026-12-31",
    "February 2028": "2028-02-01 2028-02-29",
    "the next few days": "2026-11-18 2026-11-21",
    "the next two days": "2026-11-18 2026-11-20",
}
TIMES = {
    "00:00": ["12am", "Midnight"],
    "03:30": ["half past three", "half three", "half past 3"],
    "06:50": ["ten to seven"],
    "08:20": ["twenty past 8"],
    "07:00": ["7 o'clock"],
    "09:00": ["at 9", "9 in the morning"],
    "09:05": ["9:05"],
    "10:00": ["ten o'clock"],
    "12:00": ["12 pm", "noon"],
    "12:45": ["quarter to one"],
    "15:00": ["15:00", "3pm", "15h", "three pm"],
    "15:30": ["3:30 p.m."],
    "17:30": ["17h30"],
    "19:00": ["seven in the evening"],
}
NO_DATES = ["", "someday", "2026-02-30", "February 30", "friyay", "t", "ma 3", "in many days", "the"]
NO_DATES += ["12/11", "31/31", "0/13", "birthday", "mondays", "undays"]


@pytest.mark.parametrize(("meant", "said"), [(day, said) for day, all_of in DATES.items() for said in all_of])
def test_dates(meant: str, said: str) -> None:
    assert parse_date(said, WEDNESDAY) == dt.date.fromisoformat(meant)


@pytest.mark.parametrize(("said", "meant"), DAYS.items())
def test_days(said: str, meant: str) -> None:
    assert parse_days(said, WEDNESDAY) == tuple(map(dt.date.fromisoformat, meant.split()))


@pytest.mark.parametrize("said", [*NO_DATES, "in 999 weekz", "monday 3", "3", "2026"])
def test_what_is_no_date_is_a_clear_error(said: str) -> None:
    with pytest.raises(ToolError, match=r"cannot understand the date .* say for example tomorrow"):
        parse_date(said, WEDNESDAY)


@pytest.mark.parametrize("said", ["in 999 weeks", "January 1"])
def test_a_day_beyond_the_calendar_is_a_clear_error(said: str) -> None:
    with pytest.raises(ToolError):
        parse_date(said, dt.date(9999, 1, 2))


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
    found, is_next = parse_date(said, today), "next" in said
    assert found.strftime("%A") == said.split()[-1]
    begin = today + dt.timedelta(days=7 - today.weekday() if is_next else 0)
    assert dt.timedelta() <= found - begin <= dt.timedelta(days=6)


@pytest.mark.parametrize(
    ("meant", "said"), [(time, said) for time, all_of in TIMES.items() for said in all_of]
)
def test_times(meant: str, said: str) -> None:
    assert parse_time(said) == dt.time.fromisoformat(meant)


@pytest.mark.parametrize("said", ["", "soon", "25:00", "12:60", "13pm", "15m", "3:5"])
def test_what_is_no_time_is_a_clear_error(said: str) -> None:
    with pytest.raises(ToolError, match="cannot understand the time"):
        parse_time(said)
