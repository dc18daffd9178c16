import datetime as dt
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import icalendar
import pytest

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant.calendar import ALL_DAY, Calendar, Event
from agentrt.examples.assistant.errors import ToolError

TODAY = dt.date(2026, 11, 18)  # a Wednesday


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not hasattr(time, "tzset"):
        pytest.skip("this system cannot change the time zone of a process")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def calendar(folder: Path, *events: str) -> Calendar:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test"]
    for number, event in enumerate(events):
        given = event.split()
        uid = [] if any(line.startswith("UID") for line in given) else [f"UID:{number}"]
        title = [] if any(line.startswith("SUMMARY") for line in given) else [f"SUMMARY:event{number}"]
        lines += ["BEGIN:VEVENT", *uid, *title, *given, "END:VEVENT"]
    path = folder / "calendar.ics"
    path.write_bytes("\r\n".join([*lines, "END:VCALENDAR", ""]).encode())
    return Calendar(path, lambda: TODAY)


def on(calendar: Calendar, date: str) -> list[tuple[str, str]]:
    return [(event.time, event.title) for event in calendar.events_on(date)]


Found = dict[str, list[tuple[str, str]]]
NEW_YORK = "DTSTART;TZID=America/New_York"
LOCAL: dict[str, tuple[list[str], Found]] = {
    "events of a day in order of time": (
        [
            "DTSTART:20261119T180000",
            "DTSTART:20261119T093000 DTEND:20261119T100000",
            "DTSTART;VALUE=DATE:20261119",
            "DTSTART:20261120T000000",
            "DTSTART:20261118T230000 DTEND:20261119T000000",
        ],
        {"tomorrow": [(ALL_DAY, "event2"), ("09:30", "event1"), ("18:00", "event0")]},
    ),
    "a day without events": ([], {"tomorrow": []}),
    "events over several days are on each": (
        [
            "DTSTART;VALUE=DATE:20261119 DTEND;VALUE=DATE:20261121",
            "DTSTART:20261119T220000 DURATION:PT20H",
        ],
        {
            "2026-11-18": [],
            "2026-11-19": [(ALL_DAY, "event0"), ("22:00", "event1")],
            "2026-11-20": [(ALL_DAY, "event0"), (ALL_DAY, "event1")],
            "2026-11-21": [],
        },
    ),
    "cancelled events are left out": (["DTSTART:20261119T180000 STATUS:CANCELLED"], {"tomorrow": []}),
    "a recurring event is on each of its days": (
        ["DTSTART:20261001T183000 DURATION:PT1H RRULE:FREQ=WEEKLY;UNTIL=20261203T183000"],
        {
            **{"2026-11-19": [("18:30", "event0")], "2026-12-03": [("18:30", "event0")]},
            **{"2026-11-20": [], "2026-12-10": [], "2026-09-24": []},
        },
    ),
    "an all-day event recurs until a date inclusive": (
        ["DTSTART;VALUE=DATE:20201119 RRULE:FREQ=YEARLY;UNTIL=20271119"],
        {"2026-11-19": [(ALL_DAY, "event0")], "2027-11-19": [(ALL_DAY, "event0")], "2028-11-19": []},
    ),
    "single occurrences are skipped or moved": (
        [
            "UID:swim DTSTART:20261101T100000 RRULE:FREQ=DAILY EXDATE:20261119T100000,20261120T100000",
            "UID:swim RECURRENCE-ID:20261121T100000 DTSTART:20261121T160000 SUMMARY:later",
        ],
        {
            **{"2026-11-18": [("10:00", "event0")], "2026-11-19": [], "2026-11-20": []},
            **{"2026-11-21": [("16:00", "later")]},
        },
    ),
}
BERLIN: dict[str, tuple[list[str], Found]] = {
    "times of other zones are shown in the local one": (
        [f"{NEW_YORK}:20261118T190000 DURATION:PT1H", "DTSTART:20261119T120000Z"],
        {"2026-11-19": [("01:00", "event0"), ("13:00", "event1")]},
    ),
    # New York leaves daylight saving time a week after Berlin: for that week the difference is 5 hours.
    "a recurring event keeps its own wall clock": (
        [f"{NEW_YORK}:20261001T090000 DURATION:PT1H RRULE:FREQ=DAILY;UNTIL=20261231T235959Z"],
        {
            "2026-10-20": [("15:00", "event0")],
            "2026-10-28": [("14:00", "event0")],
            "2026-11-20": [("15:00", "event0")],
        },
    ),
    # 01:30 UTC on the 20th is 20:30 on the 19th in New York, half an hour before that day's event.
    "the end of a recurrence is a moment in its own zone": (
        [f"{NEW_YORK}:20261101T210000 DURATION:PT1H RRULE:FREQ=DAILY;UNTIL=20261120T013000Z"],
        {"2026-11-19": [("03:00", "event0")], "2026-11-20": []},
    ),
}


@pytest.mark.parametrize(("events", "found"), LOCAL.values(), ids=LOCAL)
def test_events_of_days(tmp_path: Path, events: list[str], found: Found) -> None:
    opened = calendar(tmp_path, *events)
    assert {day: on(opened, day) for day in found} == found


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(("events", "found"), BERLIN.values(), ids=BERLIN)
def test_events_in_other_zones(tmp_path: Path, events: list[str], found: Found) -> None:
    test_events_of_days(tmp_path, events, found)


def test_an_unclear_date_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot understand the date 'someday'"):
        calendar(tmp_path).events_on("someday")


def test_an_added_event_is_listed_and_read_by_other_programs(tmp_path: Path) -> None:
    found = calendar(tmp_path, "DTSTART:20261120T080000")
    found.add("dentist", "on Friday", "3pm")
    assert found.events_on("friday") == [Event("08:00", "event0"), Event("15:00", "dentist")]
    parsed = icalendar.Calendar.from_ical((tmp_path / "calendar.ics").read_bytes())
    added = parsed.walk("VEVENT")[-1]
    assert added["DTSTART"].dt == dt.datetime(2026, 11, 20, 15)
    assert added["UID"]
    assert added["DTSTAMP"]
    assert [file.name for file in tmp_path.iterdir()] == ["calendar.ics"]


@pytest.mark.parametrize(("date", "time"), [("someday", "15:00"), ("Friday", "soon")])
def test_an_event_that_makes_no_sense_is_not_added(tmp_path: Path, date: str, time: str) -> None:
    found = calendar(tmp_path)
    before = (tmp_path / "calendar.ics").read_bytes()
    with pytest.raises(ToolError):
        found.add("dentist", date, time)
    assert (tmp_path / "calendar.ics").read_bytes() == before


def test_events_added_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    found = calendar(tmp_path)
    threads = [threading.Thread(target=found.add, args=(f"e{n}", "Friday", "15:00")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found.events_on("Friday")) == 8


@pytest.mark.parametrize("content", [b"", b"hello", b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n", b"\xff\xfe\0"])
def test_another_kind_of_file_is_a_configuration_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "calendar.ics").write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not an iCalendar file"):
        Calendar(tmp_path / "calendar.ics")


def test_changes_by_other_programs_are_seen(tmp_path: Path) -> None:
    found = calendar(tmp_path, "DTSTART:20261119T180000")
    assert on(found, "tomorrow") == [("18:00", "event0")]
    calendar(tmp_path, "DTSTART:20261119T180000", "DTSTART:20261119T200000")
    assert on(found, "tomorrow") == [("18:00", "event0"), ("20:00", "event1")]
