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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import icalendar
from dateutil import rrule  # type: ignore[import-untyped]

from .dates import parse_date, parse_days, parse_time
from .errors import ToolError
from .sources import Parsed, Source, Sources, discard, leave_out, write_new

ALL_DAY = "all day"
_END = re.compile(rb"^END:VCALENDAR", re.IGNORECASE | re.MULTILINE)
_FOLD = re.compile(rb"\r?\n[ \t]")
_EVENT_EDGE = re.compile(rb"^(BEGIN|END):VEVENT", re.IGNORECASE | re.MULTILINE)
_EVENT = re.compile(
    rb"^BEGIN:VEVENT[ \t]*\r?\n(?:.*\n)*?END:VEVENT[ \t]*(?:\r?\n|\Z)", re.IGNORECASE | re.MULTILINE
)
_FILLED = re.compile(rb"^BEGIN:(?!VCALENDAR|VTIMEZONE|STANDARD|DAYLIGHT)", re.IGNORECASE | re.MULTILINE)
"""In a calendar that has something."""
_EDGE = re.compile(
    rb"^(DTSTART|DTEND)(?=[;:\r\n])((?:[^\r\n]|\r?\n[ \t])*:)((?:[^\r\n:]|\r?\n[ \t])*)",
    re.IGNORECASE | re.MULTILINE,
)
"""When an event begins or ends: the name, what stands before the value, and the value; both may be folded."""
_RECURRING = re.compile(rb"^(?:RRULE|RDATE|EXRULE|RECURRENCE-ID)[;:]", re.IGNORECASE | re.MULTILINE)
_TITLE_WORD = re.compile(r"[^\W_]+")
_ARTICLES = frozenset({"a", "an", "the"})
_RECURS = "{} recurs, and only single events can be changed; nothing was changed"
_WEEK = 7
_DEFAULT_LENGTH = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Event:
    """One event on one day; ``time`` is ``18:00``, ``until 01:00`` or ``all day``, in local time."""

    time: str
    title: str
    until: str = ""
    """When it ends on that day, if it also begins on it."""
    place: str = ""


@dataclass(frozen=True)
class Dated:
    """An event by the day on which it begins; ``time`` is ``18:00`` or ``all day``, in local time."""

    title: str
    date: dt.date
    time: str


@dataclass(frozen=True)
class _Series:
    """An event, which may recur. Recurrence counts in the wall-clock time of the event's own time zone."""

    uid: str
    title: str
    place: str
    start: dt.date | dt.datetime
    length: dt.timedelta
    rule: Any
    skipped: frozenset[dt.datetime]
    replaces: tuple[str, dt.datetime] | None
    """The series and the occurrence in place of which this event is."""
    cancelled: bool
    number: int
    """Of the events in its file."""


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

        Of several days, the name of the day stands before the time; its date, too, beyond a week.
        """
        first, last = parse_days(date, self.today())
        days = [first + dt.timedelta(days=count) for count in range((last - first).days + 1)]
        with self._lock:
            self._parsed.refresh()
            known = self._parsed.items()
        replaced = {series.replaces for series in known}
        if first == last:
            return _events_of(first, known, replaced)
        name = "%A" if len(days) <= _WEEK else "%A %d %B"
        return [
            replace(event, time=f"{day:{name}} {event.time}")
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

    def find(self, first: dt.date, last: dt.date) -> list[Dated]:
        """The events from the ``first`` day to the ``last``, each once, in order of time."""
        with self._lock:
            self._parsed.refresh()
            known = self._parsed.items()
        replaced = {series.replaces for series in known}
        found: dict[tuple[str, str], dt.date | dt.datetime] = {}
        for day in (first + dt.timedelta(days=count) for count in range((last - first).days + 1)):
            for series, start, _ in _on(day, known, replaced):
                found.setdefault((series.uid, series.title), start)
        ordered = sorted(found.items(), key=lambda each: _wall(each[1], None))
        return [_dated(title, start) for (_, title), start in ordered]

    def single(self, title: str, date: str) -> Dated:
        """The event of that title, or with that part of its title alone, on that day.

        :class:`ToolError` if there is none or there are several, or it recurs or stands in several places.
        """
        with self._lock:
            return self._place(title, date).dated

    def delete(self, title: str, date: str) -> Dated:
        """Remove what :meth:`single` finds from its file; a file that has only this event is discarded."""
        with self._lock:
            place = self._place(title, date)
            rest = place.content[: place.begin] + place.content[place.end :]
            if _FILLED.search(rest):
                _replace(place.source.path, rest)
            else:
                discard(place.source.path)
            del self._parsed.read[place.source]
        return place.dated

    def move(self, title: str, date: str, new_date: str, new_time: str) -> Dated:
        """Begin what :meth:`single` finds on another day or at another time; its length stays.

        An empty ``new_date`` is the day on which it begins, an empty ``new_time`` its time.
        """
        with self._lock:
            place = self._place(title, date)
            start = _local(place.series.start)
            new: dt.date | dt.datetime
            new = day = parse_date(new_date, self.today()) if new_date else place.dated.date
            if isinstance(start, dt.datetime):
                new = dt.datetime.combine(day, parse_time(new_time) if new_time else start.time())
            elif new_time:
                raise ToolError(f"{place.series.title} lasts all day and has no time; nothing was changed")
            _replace(place.source.path, _moved(place, new))
            del self._parsed.read[place.source]  # its size and its time may look unchanged
        return _dated(place.series.title, new)

    def _place(self, title: str, date: str) -> _Place:
        """Where the event stands that :meth:`single` describes. The caller holds the lock."""
        self._parsed.refresh()
        day, words = parse_date(date, self.today()), title_words(title)
        known = self._parsed.items()
        replaced = {series.replaces for series in known}
        near = [each for each, *_ in _on(day, known, replaced) if _has(title_words(each.title), words)]
        found = [series for series in near if title_words(series.title) == words] or near
        if not found or not words:
            raise ToolError(f"there is no event {title} on {day:%A}, {day}; nothing was changed")
        if len({(series.uid, series.title) for series in found}) > 1:
            raise ToolError(f"there are {len(found)} events {title} on {day:%A}, {day}; nothing was changed")
        series = found[0]
        if series.rule is not None or series.replaces is not None:
            raise ToolError(_RECURS.format(series.title))
        if sum(each.uid == series.uid for each in known) > 1:
            raise ToolError(f"{series.title} stands in several places; nothing was changed")
        source = next(source for source, events in self._parsed.read.items() if series in (events or ()))
        content = source.path.read_bytes()
        blocks, parts = list(_EVENT.finditer(content)), _parts(content)
        if len(blocks) == len(parts) > series.number:
            part, (begin, end) = parts[series.number], blocks[series.number].span()
            if _RECURRING.search(content, begin, end):
                raise ToolError(_RECURS.format(series.title))
            if (str(part.get("SUMMARY", "untitled")), part["DTSTART"].dt) == (series.title, series.start):
                return _Place(source, series, part, content, begin, end)
        raise ToolError(f"{series.title} cannot be told from the rest of {source.place}; nothing was changed")

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
        found = [part.get("UID") for part in _parts(changed)]
    except ValueError:
        return b""
    return changed if event["UID"] in found else b""


@dataclass(frozen=True)
class _Place:
    """An event in the content of a file, from its first line to behind its last."""

    source: Source
    series: _Series
    part: Any
    content: bytes
    begin: int
    end: int

    @property
    def dated(self) -> Dated:
        return _dated(self.series.title, _local(self.series.start))


def title_words(title: str) -> list[str]:
    """The words of a title without case, articles and punctuation."""
    return [word for word in _TITLE_WORD.findall(title.casefold()) if word not in _ARTICLES]


def _has(words: Sequence[str], part: Sequence[str]) -> bool:
    return f" {' '.join(part)} " in f" {' '.join(words)} "


def _parts(content: bytes) -> list[Any]:
    calendars = icalendar.Calendar.from_ical(content, multiple=True)
    return [part for calendar in calendars for part in calendar.walk("VEVENT")]


def _moved(place: _Place, start: dt.date | dt.datetime) -> bytes:
    """The content of the file, in which the event begins at ``start``, in local time, and is as long.

    :class:`ToolError` if it could not be read so then: there is no 02:30 on some days.
    """
    old, changed = place.content[place.begin : place.end], place.content
    begin = _in_zone(start, place.series.start)
    edges = {b"DTSTART": begin}
    if "DTEND" in place.part:
        edges[b"DTEND"] = _in_zone(begin + place.series.length, place.part["DTEND"].dt)

    def value(match: re.Match[bytes]) -> bytes:
        moment = edges[match[1].upper()]
        form = "%Y%m%dT%H%M%S" if isinstance(moment, dt.datetime) else "%Y%m%d"
        utc = b"Z" if match[3].upper().endswith(b"Z") else b""
        return match[1] + match[2] + moment.strftime(form).encode() + utc

    if sorted(match[1].upper() for match in _EDGE.finditer(old)) == sorted(edges):
        changed = place.content[: place.begin] + _EDGE.sub(value, old) + place.content[place.end :]
    part = _parts(changed)[place.series.number]
    if _local(part["DTSTART"].dt) != start or _length(part) != place.series.length:
        raise ToolError(f"{place.series.title} cannot be moved to {start}; nothing was changed")
    return changed


def _in_zone(moment: dt.date | dt.datetime, like: dt.date | dt.datetime) -> dt.date | dt.datetime:
    zone = like.tzinfo if isinstance(like, dt.datetime) else None
    return moment.astimezone(zone) if isinstance(moment, dt.datetime) and zone else moment


def _dated(title: str, start: dt.date | dt.datetime) -> Dated:
    day = _wall(start, None).date()
    return Dated(" ".join(title.split()), day, _clock(start, start, day))


def _events_of(
    day: dt.date, known: list[_Series], replaced: set[tuple[str, dt.datetime] | None]
) -> list[Event]:
    found = {(start, end, each.title, each.uid, each.place) for each, start, end in _on(day, known, replaced)}
    ordered = sorted(found, key=lambda event: (isinstance(event[0], dt.datetime), str(event[0]), event[2]))
    return [
        Event(_clock(start, end, day), title, _end(start, end), place)
        for start, end, title, _, place in ordered
    ]


def _on(
    day: dt.date, known: list[_Series], replaced: set[tuple[str, dt.datetime] | None]
) -> Iterator[tuple[_Series, dt.date | dt.datetime, dt.date | dt.datetime]]:
    """Each occurrence on a day with its start and end in local time."""
    for series in known:
        if not series.cancelled:
            for start, end in _occurrences(series, day, replaced):
                if _touches(start, end, day):
                    yield series, start, end


def _read(source: Source) -> list[_Series]:
    known = []
    content = source.path.read_bytes()
    parts = _parts(content)
    lines = _FOLD.sub(b"", content)
    if not _END.search(lines):
        raise ValueError("it has no calendar, or not its end")
    edges = Counter(match[1].upper() for match in _EVENT_EDGE.finditer(lines))
    if edges[b"BEGIN"] != edges[b"END"]:
        raise ValueError("an event in it has no end")
    for number, part in enumerate(parts):
        try:
            known.append(_series(part, number))
        except Exception as error:  # noqa: BLE001 - what is missing or makes no sense raises whatever it does
            leave_out(f"an event in {source.place}", error)
    return known


def _series(part: Any, number: int) -> _Series:
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
        " ".join(str(part.get("LOCATION", "")).split()),
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
        number,
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


def _end(start: dt.date | dt.datetime, end: dt.date | dt.datetime) -> str:
    """When an event ends, such as ``19:00``, if it begins and ends on one day."""
    begun, ended = _wall(start, None), _wall(end, None)
    return f"{ended:%H:%M}" if begun < ended and begun.date() == ended.date() else ""


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
