"""The results of tools as a person reads them, whole and in the same words each time."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from .calendar import Dated
from .dates import parse_date, parse_days
from .errors import ToolError
from .search import MOST_FOUND, asks_for_list

Statement: TypeAlias = Callable[[Mapping[str, Any], Any, dt.date], str]
"""Returns a result in sentences, by the arguments of the call and today's date."""

_TEXTS: Final = ("read_note", "read_mail", "read_file", "search_web")
"""Tools whose result is a text, in which the answer to a question may stand."""


@dataclass(frozen=True)
class Made:
    """A call and its result."""

    name: str
    arguments: Mapping[str, Any]
    result: str

    @property
    def failed(self) -> bool:
        """Whether the result says what went wrong."""
        return self.result.startswith('{"error"')

    @property
    def has_text(self) -> bool:
        """Whether the result is a text."""
        return self.name in _TEXTS and not self.failed

    @property
    def lists(self) -> bool:
        """Whether it is a search for whatever there is."""
        return self.name.startswith("search_") and asks_for_list(str(self.arguments.get("query", "")))

    @property
    def found_nothing(self) -> bool:
        """Whether the result is an empty list."""
        return self.result == "[]"


def state(call: Made, today: dt.date) -> str:
    """Return the result of ``call`` in sentences; of an unknown tool the result itself."""
    try:
        found = json.loads(call.result)
    except ValueError:
        return call.result
    if call.failed:
        return _DECLINED.get(found["error"], f"That did not work: {found['error']}.")
    statement = (_LISTS if call.lists else _STATEMENTS).get(call.name)
    return call.result if statement is None else statement(call.arguments, found, today)


_DECLINED: Final = {
    "the user has declined this call": "You have declined it: nothing was done.",
    "this call was not run, because the user could not be asked": "Nobody could be asked: nothing was done.",
}


def _events(arguments: Mapping[str, Any], found: Sequence[Mapping[str, str]], today: dt.date) -> str:
    when = _days(str(arguments["date"]), today)
    if not found:
        return f"Nothing is on your calendar {when}."
    return f"On your calendar {when}: {_listed(map(_event, found))}."


def _event(found: Mapping[str, str]) -> str:
    until = f" to {found['until']}" if "until" in found else ""
    place = f" ({found['place']})" if "place" in found else ""
    return f"{found['time']}{until} {found['title']}{place}"


def _days(text: str, today: dt.date) -> str:
    try:
        first, last = parse_days(text, today)
    except ToolError:
        return text
    days = f"from {_day(first)} to {_day(last)}" if last > first else f"on {_day(first)}"
    near = {today: "today", today + dt.timedelta(days=1): "tomorrow"}
    return f"{near[first]}, {days.removeprefix('on ')}" if first == last and first in near else days


def _clock(found: Mapping[str, str]) -> str:
    """Return the time of day as it was said, and as it was understood: "half six (06:30)"."""
    return f"{found['time']} ({found['begins']})" if "begins" in found else found["time"]


def _day(day: dt.date) -> str:
    return f"{day:%A, %B} {day.day}"


def dated(event: Dated, today: dt.date) -> str:
    """Return an event with its day and time."""
    year = f" {event.date.year}" if event.date.year != today.year else ""
    return f"{event.title}, {event.date:%A} {event.date.day} {event.date:%B}{year} {event.time}"


def _changed(deed: str, key: str) -> Statement:
    return lambda arguments, found, today: (
        f"{deed}: {dated(Dated(found[key], parse_date(found['date'], today), found['time']), today)}."
    )


def _listed(things: Iterable[str]) -> str:
    return "; ".join(things)


def _matches(what: str, name: Callable[[Mapping[str, str]], str]) -> Statement:
    def statement(arguments: Mapping[str, Any], found: Sequence[Mapping[str, str]], today: dt.date) -> str:
        if not found:
            return f"I found no {what} about {arguments['query']}."
        count = f"I found {_count(len(found), what)}" if len(found) < MOST_FOUND else "The best matches"
        return f"{count}: {_listed(map(name, found))}."

    return statement


def _mail(found: Mapping[str, str]) -> str:
    return f"{found['from']}, {found['subject']}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


_LISTS: Final[Mapping[str, Statement]] = {
    "search_notes": lambda arguments, found, today: (
        f"You have {_count(len(found), 'note')}: {_listed(note['title'] for note in found)}."
        if found
        else "You have no notes."
    ),
    "search_mail": lambda arguments, found, today: (
        f"The latest mails: {_listed(map(_mail, found))}." if found else "You have no mail."
    ),
    "search_files": lambda arguments, found, today: (
        f"You have {_count(len(found), 'file')}: {_listed(file['path'] for file in found)}."
        if found
        else "You have no files."
    ),
}
_STATEMENTS: Final[Mapping[str, Statement]] = {
    "list_events": _events,
    "add_event": lambda arguments, found, today: (
        f"Added to your calendar: {found['added']}, {_days(found['date'], today)} at {_clock(found)}."
    ),
    "delete_event": _changed("Cancelled", "cancelled"),
    "move_event": _changed("Moved", "moved"),
    "search_notes": _matches("note", lambda found: found["title"]),
    "create_note": lambda arguments, found, today: f"Saved as a note: {arguments['text']}",
    "delete_note": lambda arguments, found, today: (
        f"Deleted the note: {found['title']}. Its file is kept in the hidden folder .deleted."
    ),
    "read_note": lambda arguments, found, today: (
        found["text"] if found["text"] == found["title"] else f"{found['title']}: {found['text']}"
    ),
    "search_mail": _matches("mail", _mail),
    "read_mail": lambda arguments, found, today: f"{found['from']}, {found['subject']}: {found['body']}",
    "search_files": _matches("file", lambda found: found["path"]),
    "read_file": lambda arguments, found, today: f"{found['path']}: {found['text']}",
    "get_weather": lambda arguments, found, today: (
        f"In {found['city']} it is {found['temperature']} degrees now, {found['sky']} (made up: no weather "
        "service is asked)."
    ),
}
