"""Calendars in iCalendar (.ics) files, as every calendar program exports and keeps them."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import icalendar
from dateutil import rrule  # type: ignore[import-untyped]

from .dates import parse_date, parse_days, parse_time
from .sources import Parsed, Source, Sources, leave_out, write_new

ALL_DAY = "all day"
_END = re.compile(rb"^END:VCALENDAR", re.IGNORECASE | re.MULTILINE)
_FOLD = re.compile(rb"\r?\n[ \t]")
_EVENT_EDGE = re.compile(rb"^(BEGIN|END):VEVENT", re.IGNORECASE | re.MULTILINE)
_DEFAULT_LENGTH = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Event:
    """One event on one day; ``time`` is ``18:00``, ``until 01:00`` or ``all day``, in local time."""

    time: str
    title: str


@dataclass(frozen=True)
class _Series:
    """An event, which may recur. Recurrence counts in the wall-clock time of the event's own time zone."""

    uid: str
    title: str
    start: dt.date | dt.datetime
    length: dt.timedelta
    rule: Any
    skipped: frozenset[dt.datetime]
    replaces: tuple[str, dt.datetime] | None
    """The series and the occurrence in place of which this event is."""
    cancelled: bool


class Calendar:
    """The calendars among the files, merged. May be used on any thread.

    Recurring events (RRULE, EXDATE and moved single occurrences) appear on each of their days, events that
    span several days on every one of them, cancelled ones nowhere.
    """

    def __init__(self, sources: Sources, today: Callable[[], dt.date] = dt.date.today) -> None:
        self.today = today
        self._sources = sources
        self._parsed = Parsed(sources, ["calendar"], _read)
        self._lock = threading.Lock()
        self.size()

    def size(self) -> tuple[int, int]:
        """The numbers of calendars and of events; one that recurs counts once."""
        with self._lock:
            self._parsed.refresh()
            events = [series for series in self._parsed.items() if series.replaces is None]
            return len(self._places()), len(events)

    def events_on(self, date: str) -> list[Event]:
        """The events on the day or in the week that the free text ``date`` means, in order of time.

        Of a week, the name of the day stands before the time.
        """
        first, last = parse_days(date, self.today())
        days = [first + dt.timedelta(days=count) for count in range((last - first).days + 1)]
        with self._lock:
            self._parsed.refresh()
            known = self._parsed.items()
        replaced = {series.replaces for series in known}
        if first == last:
            return _events_of(first, known, replaced)
        return [
            Event(f"{day:%A} {event.time}", event.title)
            for day in days
            for event in _events_of(day, known, replaced)
        ]

    def add(self, title: str, date: str, time: str) -> None:
        """Add an event of one hour.

        It goes into the first calendar that is one file, else as a file of its own into the first folder of
        events, else into a new calendar. A file is replaced in one step, so that a crash cannot truncate it.
        """
        day, clock = parse_date(date, self.today()), parse_time(time)
        event = new_event(title, dt.datetime.combine(day, clock), _DEFAULT_LENGTH)
        with self._lock:
            self._parsed.refresh()
            places = self._places()
            for file in filter(Path.is_file, places):
                if changed := _with_event(file.read_bytes(), event):
                    _replace(file, changed)
                    return
            content = new_calendar([event]).to_ical()
            folder = next(filter(Path.is_dir, places), None)
            if folder:
                write_new(folder, str(event["uid"]), ".ics", content)
            else:
                write_new(self._sources.folder(), "calendar", ".ics", content)

    def _places(self) -> list[Path]:
        """The calendars: files, and folders with files of one event each."""
        files = {source.path: series for source, series in self._parsed.read.items() if series is not None}
        neighbours = Counter(path.parent for path in files)
        places = []
        for path, series in files.items():
            whole = neighbours[path.parent] == 1 or len({one.uid for one in series}) > 1
            places.append(path if whole or not self._sources.holds(path.parent) else path.parent)
        return list(dict.fromkeys(places))


def new_event(title: str, start: dt.date | dt.datetime, length: dt.timedelta) -> icalendar.Event:
    """Return an event that no calendar has."""
    event = icalendar.Event()
    event.add("uid", str(uuid.uuid4()))
    event.add("dtstamp", dt.datetime.now(dt.UTC))
    event.add("summary", title)
    event.add("dtstart", start)
    event.add("duration", length)
    return event


def new_calendar(events: Iterable[icalendar.Event]) -> icalendar.Calendar:
    """Return a calendar of these events."""
    calendar = icalendar.Calendar()
    calendar.add("prodid", "-//agentrt//assistant//EN")
    calendar.add("version", "2.0")
    for event in events:
        calendar.add_component(event)
    return calendar


def _with_event(content: bytes, event: icalendar.Event) -> bytes:
    """What a file has, unchanged, with the event before its end; empty if it could not be read then."""
    ends = [match.start() for match in _END.finditer(content)]
    if not ends:  # the line is folded
        return b""
    end = ends[-1]
    changed = content[:end] + event.to_ical() + content[end:]
    try:
        calendars = icalendar.Calendar.from_ical(changed, multiple=True)
    except ValueError:
        return b""
    found = (part.get("UID") for calendar in calendars for part in calendar.walk("VEVENT"))
    return changed if event["UID"] in found else b""


def _events_of(
    day: dt.date, known: list[_Series], replaced: set[tuple[str, dt.datetime] | None]
) -> list[Event]:
    found = {
        (start, end, series.title, series.uid)
        for series in known
        if not series.cancelled
        for start, end in _occurrences(series, day, replaced)
        if _touches(start, end, day)
    }
    ordered = sorted(found, key=lambda event: (isinstance(event[0], dt.datetime), str(event[0]), event[2]))
    return [Event(_clock(start, end, day), title) for start, end, title, _ in ordered]


def _read(source: Source) -> list[_Series]:
    known = []
    content = source.path.read_bytes()
    calendars = icalendar.Calendar.from_ical(content, multiple=True)
    lines = _FOLD.sub(b"", content)
    if not _END.search(lines):
        raise ValueError("it has no calendar, or not its end")
    edges = Counter(match[1].upper() for match in _EVENT_EDGE.finditer(lines))
    if edges[b"BEGIN"] != edges[b"END"]:
        raise ValueError("an event in it has no end")
    for part in (part for calendar in calendars for part in calendar.walk("VEVENT")):
        try:
            known.append(_series(part))
        except Exception as error:  # noqa: BLE001 - what is missing or makes no sense raises whatever it does
            leave_out(f"an event in {source.place}", error)
    return known


def _series(part: Any) -> _Series:
    start, length = part["DTSTART"].dt, _length(part)
    _local(start), _local(start + length)  # raises what would be raised later
    zone = start.tzinfo if isinstance(start, dt.datetime) else None
    rule = part.get("RRULE")
    skipped = part.get("EXDATE", [])
    uid = str(part.get("UID") or uuid.uuid4())
    replaces = None
    if "RECURRENCE-ID" in part:
        original = part["RECURRENCE-ID"].dt
        replaces = (uid, _wall(original, original.tzinfo if isinstance(original, dt.datetime) else None))
    return _Series(
        uid,
        str(part.get("SUMMARY", "untitled")),
        start,
        length,
        _rule(rule, start) if rule else None,
        frozenset(
            _wall(date.dt, zone)
            for dates in (skipped if isinstance(skipped, list) else [skipped])
            for date in dates.dts
        ),
        replaces,
        str(part.get("STATUS", "")).upper() == "CANCELLED",
    )


def _occurrences(
    series: _Series, day: dt.date, replaced: set[tuple[str, dt.datetime] | None]
) -> Iterator[tuple[dt.date | dt.datetime, dt.date | dt.datetime]]:
    """Start and end of each occurrence that can touch ``day``, in local wall-clock time."""
    start, length = series.start, series.length
    if series.rule is None:
        yield _local(start), _local(start + length)
        return
    zone = start.tzinfo if isinstance(start, dt.datetime) else None
    margin = dt.timedelta(days=2)  # more than any difference between two time zones
    midnight = dt.datetime.combine(day, dt.time())
    for occurrence in series.rule.between(midnight - length - margin, midnight + margin, inc=True):
        if occurrence in series.skipped or (series.uid, occurrence) in replaced:
            continue
        begin = occurrence.replace(tzinfo=zone) if isinstance(start, dt.datetime) else occurrence.date()
        yield _local(begin), _local(begin + length)


def _length(part: Any) -> dt.timedelta:
    start = part["DTSTART"].dt
    if "DURATION" in part:
        return part["DURATION"].dt  # type: ignore[no-any-return]
    if "DTEND" in part:
        return part["DTEND"].dt - start  # type: ignore[no-any-return]
    return dt.timedelta() if isinstance(start, dt.datetime) else dt.timedelta(days=1)


def _rule(rule: icalendar.vRecur, start: dt.date | dt.datetime) -> Any:
    """The rule in the wall-clock time of the event; ValueError if following it would not end."""
    if rule.get("INTERVAL", [1])[0] < 1 or rule["FREQ"][0] in ("SECONDLY", "MINUTELY"):
        raise ValueError("it recurs too often")
    zone = start.tzinfo if isinstance(start, dt.datetime) else None
    naive = icalendar.vRecur(rule)
    naive.pop("UNTIL", None)
    text: str = naive.to_ical().decode()  # type: ignore[no-untyped-call]
    probe = rrule.rrulestr(text, dtstart=dt.datetime(9980, 1, 1)).replace(count=None)  # it ends in 9999
    if next(iter(probe), None) is None:
        raise ValueError("it never recurs")
    until = rule.get("UNTIL")
    if until:
        last = until[0]
        if not isinstance(last, dt.datetime):  # a bare date includes that whole day
            last = dt.datetime.combine(last, dt.time.max)
        text += f";UNTIL={_wall(last, zone):%Y%m%dT%H%M%S}"
    return rrule.rrulestr(text, dtstart=_wall(start, zone))


def _wall(moment: dt.date | dt.datetime, zone: dt.tzinfo | None) -> dt.datetime:
    if not isinstance(moment, dt.datetime):
        return dt.datetime.combine(moment, dt.time())
    if moment.tzinfo is not None and zone is not None:
        moment = moment.astimezone(zone)
    return moment.replace(tzinfo=None)


def _local(moment: dt.date | dt.datetime) -> dt.date | dt.datetime:
    if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
        return moment.astimezone().replace(tzinfo=None)
    return moment


def _touches(start: dt.date | dt.datetime, end: dt.date | dt.datetime, day: dt.date) -> bool:
    begin, finish = _wall(start, None), _wall(end, None)
    midnight = dt.datetime.combine(day, dt.time())
    tomorrow = midnight + dt.timedelta(days=1)
    return begin < tomorrow and (finish > midnight or begin >= midnight)


def _clock(start: dt.date | dt.datetime, end: dt.date | dt.datetime, day: dt.date) -> str:
    if isinstance(start, dt.datetime) and start.date() == day:
        return f"{start:%H:%M}"
    if isinstance(start, dt.datetime) and isinstance(end, dt.datetime) and end.date() == day:
        return f"until {end:%H:%M}"
    return ALL_DAY


def _replace(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            shutil.copymode(path, file.name)
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
