"""A calendar in one iCalendar (.ics) file, as every calendar program exports it."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import icalendar
from dateutil import rrule  # type: ignore[import-untyped]

from agentrt.errors import ConfigurationError

from .dates import parse_date, parse_days, parse_time

ALL_DAY = "all day"
_DEFAULT_LENGTH = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Event:
    """One event on one day; ``time`` is ``"18:00"`` in this machine's time zone, or ``"all day"``."""

    time: str
    title: str


class Calendar:
    """The calendar in ``path``.

    Recurring events (RRULE, EXDATE and moved single occurrences) appear on each of their days, events that
    span several days on every one of them, cancelled ones nowhere.
    """

    def __init__(self, path: Path, today: Callable[[], dt.date] = dt.date.today) -> None:
        """Open the calendar; :class:`ConfigurationError` if it is not an iCalendar file."""
        self.path = path
        self.today = today
        self._writing = threading.Lock()  # calls come from worker threads
        self._known = (self._version(), self._parse())

    def events_on(self, date: str) -> list[Event]:
        """The events on the day or in the week that the free text ``date`` means, in order of time."""
        first, last = parse_days(date, self.today())
        days = [first + dt.timedelta(days=count) for count in range((last - first).days + 1)]
        return [event for day in days for event in self._events_of(day)]

    def _events_of(self, day: dt.date) -> list[Event]:
        components = self._current().walk("VEVENT")
        moved = {_occurrence_key(part) for part in components if "RECURRENCE-ID" in part}
        found = [
            (start, str(part.get("SUMMARY", "untitled")))
            for part in components
            if str(part.get("STATUS", "")).upper() != "CANCELLED"
            for start, end in _occurrences(part, day, moved)
            if _touches(start, end, day)
        ]
        found.sort(key=lambda event: (isinstance(event[0], dt.datetime), str(event[0]), event[1]))
        return [Event(_clock(start, day), title) for start, title in found]

    def add(self, title: str, date: str, time: str) -> None:
        """Add an event of one hour; the file is replaced in one step, so that a crash cannot truncate it."""
        day, clock = parse_date(date, self.today()), parse_time(time)
        event = icalendar.Event()
        event.add("uid", str(uuid.uuid4()))
        event.add("dtstamp", dt.datetime.now(dt.UTC))
        event.add("summary", title)
        event.add("dtstart", dt.datetime.combine(day, clock))
        event.add("duration", _DEFAULT_LENGTH)
        with self._writing:
            calendar = self._parse()
            calendar.add_component(event)
            _replace(self.path, calendar.to_ical())

    def _current(self) -> icalendar.Calendar:
        """The calendar as it is now; a large one takes seconds to parse, so only if it has changed."""
        version = self._version()
        if version != self._known[0]:
            self._known = (version, self._parse())
        return self._known[1]

    def _version(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_mtime_ns, status.st_size

    def _parse(self) -> icalendar.Calendar:
        try:
            calendar = icalendar.Calendar.from_ical(self.path.read_bytes())
        except ValueError as error:
            raise ConfigurationError(
                f"{self.path} is not an iCalendar file ({error}). Put a calendar exported as .ics there."
            ) from error
        assert isinstance(calendar, icalendar.Calendar)
        return calendar


def _occurrences(
    part: Any, day: dt.date, moved: set[tuple[str, str]]
) -> Iterator[tuple[dt.date | dt.datetime, dt.date | dt.datetime]]:
    """Start and end of each occurrence that can touch ``day``, in local wall-clock time."""
    start, length = part["DTSTART"].dt, _length(part)
    if "RRULE" not in part:
        yield _local(start), _local(start + length)
        return
    # A rule counts in the wall-clock time of the event's own time zone ("every Monday at 9 in Berlin").
    zone = start.tzinfo if isinstance(start, dt.datetime) else None
    wall = _wall(start, zone)
    rule = rrule.rrulestr(_naive_rule(part["RRULE"], zone), dtstart=wall)
    skipped = {_wall(date.dt, zone) for dates in _listed(part.get("EXDATE")) for date in dates.dts}
    margin = dt.timedelta(days=2)  # more than any difference between two time zones
    midnight = dt.datetime.combine(day, dt.time())
    for occurrence in rule.between(midnight - length - margin, midnight + margin, inc=True):
        if occurrence in skipped or (str(part.get("UID")), occurrence.isoformat()) in moved:
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


def _naive_rule(rule: icalendar.vRecur, zone: dt.tzinfo | None) -> str:
    """The rule as text with UNTIL, if any, in the wall-clock time of ``zone``."""
    naive = icalendar.vRecur(rule)
    naive.pop("UNTIL", None)
    text: str = naive.to_ical().decode()  # type: ignore[no-untyped-call]
    until = rule.get("UNTIL")
    if until:
        last = until[0]
        if not isinstance(last, dt.datetime):  # a bare date includes that whole day
            last = dt.datetime.combine(last, dt.time.max)
        text += f";UNTIL={_wall(last, zone):%Y%m%dT%H%M%S}"
    return text


def _occurrence_key(part: Any) -> tuple[str, str]:
    original = part["RECURRENCE-ID"].dt
    zone = original.tzinfo if isinstance(original, dt.datetime) else None
    return str(part.get("UID")), _wall(original, zone).isoformat()


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


def _clock(start: dt.date | dt.datetime, day: dt.date) -> str:
    # What began on an earlier day fills this one from its first minute.
    if not isinstance(start, dt.datetime) or start.date() < day:
        return ALL_DAY
    return f"{start:%H:%M}"


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _replace(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
