import datetime as dt
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import icalendar
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.examples.assistant.calendar import ALL_DAY, Calendar, Event
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.sources import Sources

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
    write(folder / "calendar.ics", *events)
    return Calendar(Sources([folder]), lambda: TODAY)


def write(path: Path, *events: str) -> None:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test"]
    for number, event in enumerate(events):
        given = event.split()
        uid = [] if any(line.startswith("UID") for line in given) else [f"UID:{number}"]
        title = [] if any(line.startswith("SUMMARY") for line in given) else [f"SUMMARY:event{number}"]
        lines += ["BEGIN:VEVENT", *uid, *title, *given, "END:VEVENT"]
    path.write_bytes("\r\n".join([*lines, "END:VCALENDAR", ""]).encode())


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
            "2026-11-20": [(ALL_DAY, "event0"), ("until 18:00", "event1")],
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
    "events of a week have the names of their days": (
        ["DTSTART:20261123T180000", "DTSTART;VALUE=DATE:20261125"],
        {"next week": [("Monday 18:00", "event0"), ("Wednesday all day", "event1")]},
    ),
    "events of a month have the dates of their days": (
        ["DTSTART:20261204T080000", "DTSTART:20270104T080000"],
        {"December": [("Friday 04 December 08:00", "event0")]},
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
    assert found.events_on("friday") == [Event("08:00", "event0"), Event("15:00", "dentist", "16:00")]
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


def test_changes_by_other_programs_are_seen(tmp_path: Path) -> None:
    found = calendar(tmp_path, "DTSTART:20261119T180000")
    assert on(found, "tomorrow") == [("18:00", "event0")]
    write(tmp_path / "calendar.ics", "DTSTART:20261119T180000", "DTSTART:20261119T200000")
    assert on(found, "tomorrow") == [("18:00", "event0"), ("20:00", "event1")]


WEEKLY = "UID:swim SUMMARY:swim DTSTART:20261005T180000 DURATION:PT1H RRULE:FREQ=WEEKLY"


def test_calendars_are_merged_with_what_recurs_and_what_is_in_two_of_them_is_once(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    write(tmp_path / "work.ics", "UID:a DTSTART:20261123T090000", "UID:b DTSTART:20261123T090000")
    for uid, event in {
        "swim": WEEKLY,
        "moved": "UID:swim SUMMARY:swim RECURRENCE-ID:20261123T180000 DTSTART:20261123T190000",
        "copy": WEEKLY,
        "tea": "UID:tea SUMMARY:tea DTSTART:20261123T160000",
    }.items():
        write(tmp_path / "home" / f"{uid}.ics", event)
    merged = Calendar(Sources([tmp_path]), lambda: TODAY)
    monday = [("09:00", "event0"), ("09:00", "event1"), ("16:00", "tea"), ("19:00", "swim")]
    assert on(merged, "monday") == monday
    assert on(merged, "2026-11-30") == [("18:00", "swim")]
    assert merged.size() == (2, 5)  # a file, and a folder with one event in each


def test_an_event_is_added_where_its_calendar_keeps_events(tmp_path: Path) -> None:
    (tmp_path / "single").mkdir()
    for name in ("a", "b"):
        write(tmp_path / "single" / f"{name}.ics", f"UID:{name} DTSTART:20261119T180000")
    found = Calendar(Sources([tmp_path]), lambda: TODAY)
    before = contents(tmp_path)
    found.add("yoga", "Friday", "15:00")  # a folder with a file for each event
    (new,) = contents(tmp_path).items() - before.items()
    assert new[0].parent == tmp_path / "single"
    assert contents(tmp_path).items() > before.items()
    write(tmp_path / "work.ics", "UID:c DTSTART:20261120T160000")
    before = contents(tmp_path)
    found.add("tea", "Friday", "17:00")  # a file that is alone in its folder
    (changed,) = contents(tmp_path).items() - before.items()
    assert changed[0] == tmp_path / "work.ics"
    assert on(found, "Friday") == [("15:00", "yoga"), ("16:00", "event0"), ("17:00", "tea")]
    one = Calendar(Sources([tmp_path / "single" / "a.ics", tmp_path / "single" / "b.ics"]), lambda: TODAY)
    one.add("jam", "Friday", "18:00")  # into the first file that was given, and not beside it
    assert on(one, "Friday") == [("18:00", "jam")]
    assert len(contents(tmp_path)) == 4


def test_without_a_calendar_that_can_be_read_a_new_one_is_made(tmp_path: Path) -> None:
    (tmp_path / "calendar.ics").write_bytes(b"damaged")
    found = Calendar(Sources([tmp_path]), lambda: TODAY)
    for title in ("yoga", "tea"):
        found.add(title, "Friday", "15:00")
    assert on(found, "Friday") == [("15:00", "tea"), ("15:00", "yoga")]
    assert found.size() == (1, 2)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["calendar 2.ics", "calendar.ics"]
    assert (tmp_path / "calendar.ics").read_bytes() == b"damaged"


def test_what_a_calendar_has_already_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "calendar.ics", "DTSTART:20261119T180000 X-ODD:kept", "NO-START:x")
    before = (tmp_path / "calendar.ics").read_bytes()
    (tmp_path / "calendar.ics").chmod(0o640)
    found = Calendar(Sources([tmp_path]), lambda: TODAY)
    found.add("yoga", "Friday", "15:00")
    after = (tmp_path / "calendar.ics").read_bytes()
    head, end = before.split(b"END:VCALENDAR")
    assert after.startswith(head)
    assert after.endswith(b"END:VCALENDAR" + end)
    if os.name == "posix":
        assert (tmp_path / "calendar.ics").stat().st_mode & 0o777 == 0o640


def test_a_calendar_that_could_not_be_read_with_a_new_event_stays_as_it_is(tmp_path: Path) -> None:
    found = calendar(tmp_path, "DTSTART:20261119T180000 DESCRIPTION:END:VCALENDAR")
    file = tmp_path / "calendar.ics"
    file.write_bytes(file.read_bytes().removesuffix(b"DAR\r\n") + b"\r\n DAR\r\n")  # a folded line
    assert found.size() == (1, 1)
    before = file.read_bytes()
    found.add("yoga", "Friday", "15:00")
    assert on(found, "Friday") == [("15:00", "yoga")]
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"BEGIN:VEVENT\r\nEND:VEVENT\r\n", b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n", b"\xff\xfe\0"],
)
def test_another_kind_of_file_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "calendar.ics").write_bytes(content)
    assert Calendar(Sources([tmp_path])).size() == (0, 0)
    assert [line.split(",")[0] for line in caplog.messages] == ["left out calendar.ics"]


@pytest.mark.parametrize(
    "event",
    [
        "DTEND:20261119T180000",
        "DTSTART:never",
        "DTSTART:20261119T180000 DTEND;VALUE=DATE:20261120",
        "DTSTART:20261119T180000 RRULE:FREQ=DAILY;INTERVAL=0",
        "DTSTART:20261119T180000 RRULE:FREQ=SECONDLY",
        "DTSTART:20261119T180000 RRULE:FREQ=SOMETIMES",
        "DTSTART:20261119T180000 RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "DTSTART:20261119T180000 RRULE:FREQ=HOURLY;BYHOUR=25",
        "DTSTART:20261119T180000 DURATION:P999999999D",
    ],
)
def test_an_event_that_makes_no_sense_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, event: str
) -> None:
    found = calendar(tmp_path, event, "DTSTART:20261119T200000")
    assert on(found, "tomorrow") == on(found, "tomorrow") == [("20:00", "event1")]
    assert [line.split(",")[0] for line in caplog.messages] == ["left out an event in calendar.ics"]


CLOCKS = st.times(max_value=dt.time(22)).map(
    lambda time: time.replace(second=0, microsecond=0, minute=time.minute)
)
DAYS = st.integers(1, 20).map(lambda days: TODAY + dt.timedelta(days))
STARTS = st.one_of(
    st.builds("DTSTART:{:%Y%m%d}T{:%H%M%S}".format, DAYS, CLOCKS),
    st.builds("DTSTART:{:%Y%m%d}T{:%H%M%S}Z".format, DAYS, CLOCKS),
    st.builds('dtstart;TZID=America/New_York;X-A="b:c":{:%Y%m%d}T{:%H%M%S}'.format, DAYS, CLOCKS),
    st.builds("DTSTART;TZID=Asia/\n Tokyo:{:%Y%m%d}\n T{:%H%M%S}".format, DAYS, CLOCKS),
)
ALL_DAYS = st.builds("DTSTART;VALUE=DATE:{:%Y%m%d}".format, DAYS)
REST = st.lists(
    st.sampled_from(
        ["X-ODD:kept", "DESCRIPTION:BEGIN:VEVENT\n DTEND:20261119", "BEGIN:VALARM\nTRIGGER:-PT5M\nEND:VALARM"]
    ),
    max_size=3,
)  # fmt: skip
EVENT = st.tuples(st.one_of(STARTS, ALL_DAYS), st.sampled_from(["end", "length", ""]), REST, st.booleans())


def lines_of(number: int, start: str, length: str, rest: list[str], has_uid: bool) -> list[str]:
    """Return the lines of an event of two hours or days, or of no length."""
    lines = [*([f"UID:{number}"] if has_uid else []), f"SUMMARY:The event-{number}", *rest, start]
    if length == "length":
        lines.append("DURATION:PT2H" if "T" in start.rpartition(":")[2] else "DURATION:P2D")
    elif length == "end":
        begun = icalendar.Event.from_ical("\n".join(["BEGIN:VEVENT", start, "END:VEVENT"]))["DTSTART"].dt
        after = dt.timedelta(hours=2) if isinstance(begun, dt.datetime) else dt.timedelta(days=2)
        value = f"{begun + after:{'%Y%m%dT%H%M%S' if isinstance(begun, dt.datetime) else '%Y%m%d'}}"
        head = start.rpartition(":")[0].replace("DTSTART", "DTEND").replace("dtstart", "dtend")
        lines.append(f"{head}:{value}{'Z' * start.endswith('Z')}")
    return ["BEGIN:VEVENT", *lines, "END:VEVENT"]


@given(st.lists(EVENT, min_size=2, max_size=4), st.data(), st.sampled_from(["\n", "\r\n"]), DAYS, CLOCKS)
def test_of_a_file_only_the_lines_of_the_event_change(
    events: list[tuple[str, str, list[str], bool]],
    data: st.DataObject,
    newline: str,
    day: dt.date,
    clock: dt.time,
) -> None:
    blocks = ["\n".join([*lines_of(number, *event), ""]) for number, event in enumerate(events)]
    blocks = [block.replace("\n", newline) for block in blocks]
    head, tail = f"BEGIN:VCALENDAR{newline}X-ODD:kept{newline}", f"X-LAST:kept{newline}END:VCALENDAR"
    number = data.draw(st.integers(0, len(events) - 1))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "calendar.ics"

        def others() -> list[bytes]:
            parts = icalendar.Calendar.from_ical(file.read_bytes()).walk("VEVENT")
            return [part.to_ical() for part in parts if str(part["SUMMARY"]) != f"The event-{number}"]

        file.write_bytes("".join([head, *blocks, tail]).encode())
        known, kept = Calendar(Sources([Path(folder)]), lambda: TODAY), others()
        (event,) = [
            each for each in known.find(TODAY, TODAY + dt.timedelta(24)) if each.title.endswith(f"-{number}")
        ]
        length = length_of(file, number)
        time = "" if event.time == ALL_DAY else f"{clock:%H:%M}"
        moved = known.move(f"event {number}!", f"{event.date}", f"{day}", time)
        assert (moved.date, moved.time) == (day, time or ALL_DAY)
        assert moved in known.find(day, day)
        assert length_of(file, number) == length
        assert others() == kept
        after = file.read_bytes().decode()
        begin, end = "".join([head, *blocks[:number]]), "".join([*blocks[number + 1 :], tail])
        assert after.startswith(begin)
        assert after.endswith(end)
        edges = ("dtstart", "dtend", " t")  # whose value may be folded
        assert [
            line
            for line in after[len(begin) : -len(end)].split(newline)
            if not line.lower().startswith(edges)
        ] == [line for line in blocks[number].split(newline) if not line.lower().startswith(edges)]
        known.delete(f"EVENT {number}", f"{day}")
        assert file.read_bytes().decode() == begin + end


def length_of(file: Path, number: int) -> dt.timedelta:
    parts = icalendar.Calendar.from_ical(file.read_bytes()).walk("VEVENT")
    (part,) = [part for part in parts if str(part["SUMMARY"]) == f"The event-{number}"]
    return part["DTEND"].dt - part["DTSTART"].dt if "DTEND" in part else dt.timedelta()


@pytest.mark.parametrize(
    ("events", "title", "why"),
    [
        ([WEEKLY], "swim", "swim recurs"),
        ([WEEKLY, "UID:swim SUMMARY:x RECURRENCE-ID:20261123T180000 DTSTART:20261123T190000"], "x", "recurs"),
        (["UID:a SUMMARY:swim DTSTART:20261123T160000 RDATE:20261130T160000"], "swim", "swim recurs"),
        (["UID:a SUMMARY:swim DTSTART:20261123T160000"] * 2, "swim", "several places"),
        (["SUMMARY:swim DTSTART:20261123T160000"] * 2, "swim", "there are 2 events swim on Monday"),
        (["SUMMARY:swim-1 DTSTART:20261123", "SUMMARY:swim-2 DTSTART:20261123"], "swim", "there are 2"),
        (["DTSTART:20261123T160000"], "swim", "there is no event swim on Monday, 2026-11-23"),
        (["DTSTART:20261123T160000"], "the", "there is no event the"),
        (["DTSTART:20261123"], "event0", "event0 lasts all day"),
    ],
)  # fmt: skip
def test_what_is_no_single_event_stays(tmp_path: Path, events: list[str], title: str, why: str) -> None:
    found = calendar(tmp_path, *events)
    before = (tmp_path / "calendar.ics").read_bytes()
    with pytest.raises(ToolError, match=f"{why}.*; nothing was changed"):
        found.move(title, "Monday", "Tuesday", "9:00")
    assert (tmp_path / "calendar.ics").read_bytes() == before


@pytest.mark.usefixtures("in_berlin")
def test_an_event_moves_in_its_own_zone_but_not_to_a_time_that_a_day_lacks(tmp_path: Path) -> None:
    found = calendar(tmp_path, f"{NEW_YORK}:20261119T130000 DTEND;TZID=America/New_York:20261119T150000")
    found.move("event0", "2026-11-19", "2027-03-19", "")  # when Berlin is 5 hours ahead, and not 6
    content = (tmp_path / "calendar.ics").read_bytes()
    assert b"New_York:20270319T140000" in content
    assert b"DTEND;TZID=America/New_York:20270319T160000" in content
    with pytest.raises(ToolError, match="cannot be moved"):
        found.move("event0", "2027-03-19", "2027-03-28", "2:30")
    assert (tmp_path / "calendar.ics").read_bytes() == content


def test_a_file_of_one_event_is_kept_out_of_sight(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.ics", f"UID:{name} SUMMARY:tea DTSTART:2026112{'ab'.index(name)}T180000")
    found = Calendar(Sources([tmp_path]), lambda: TODAY)
    content = (tmp_path / "a.ics").read_bytes()
    found.delete("tea", "Friday")
    assert {*contents(tmp_path)} == {tmp_path / "b.ics", tmp_path / ".deleted" / "a.ics"}
    assert (tmp_path / ".deleted" / "a.ics").read_bytes() == content
    write(tmp_path / "a.ics", "UID:a SUMMARY:tea DTSTART:20261120T180000")
    found.delete("tea", "Friday")
    assert (tmp_path / ".deleted" / "a 2.ics").exists()
    assert on(found, "Friday") == []


def test_a_file_that_has_more_than_the_event_stays(tmp_path: Path) -> None:
    found = calendar(tmp_path, "DTSTART:20261120T180000")
    file = tmp_path / "calendar.ics"
    task = b"BEGIN:VTODO\r\nSUMMARY:x\r\nEND:VTODO\r\nEND:VCALENDAR"
    file.write_bytes(file.read_bytes().replace(b"END:VCALENDAR", task))
    found.delete("event0", "Friday")
    assert b"VEVENT" not in file.read_bytes()
    assert task in file.read_bytes()


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*.ics")}


def test_an_event_says_when_it_ends_and_where_it_is(tmp_path: Path) -> None:
    found = calendar(
        tmp_path,
        "DTSTART:20261120T080000 DTEND:20261120T093000 LOCATION:Library",
        "DTSTART:20261120T230000 DTEND:20261121T010000",
    )
    assert found.events_on("Friday") == [
        Event("08:00", "event0", "09:30", "Library"),
        Event("23:00", "event1"),
    ]
