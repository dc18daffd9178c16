"""A made-up person's notes, calendar, mail and files, written in the formats that real programs use.

The same every time but for the dates, which lie around today so that "tomorrow" has something on. People and
things are invented; the texts are short because the demonstration model reads them out.
"""

from __future__ import annotations

import datetime as dt
import mailbox
import tomllib
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Final

import icalendar

from .calendar import new_calendar, new_event

_TEXTS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
# (days from today, start, end, title)
_EVENTS = (
    (0, "12:30", "13:30", "Lunch with Priya"),
    (0, "18:00", "19:00", "Choir practice"),
    (1, "09:30", "10:00", "Dentist"),
    (1, "19:00", "22:00", "Dinner at the Green Lantern"),
    (2, "10:00", "11:00", "Boiler check with Hanna"),
    (3, "08:00", "16:00", "Roofers at the house"),
    (4, "17:15", "18:00", "Guitar lesson"),
    (6, "07:42", "14:10", "Train to Bergen"),
)
_WEEKLY = ("18:30", "19:30", "Swimming")  # on the weekday of the day after tomorrow, since four weeks ago
_ALL_DAY = (9, 2, "Cabin weekend")  # days from today, length in days


def write_sample_data(folder: Path, today: dt.date) -> None:
    """Create ``folder`` with notes, ``calendar.ics``, ``mail.mbox`` and text files."""
    folder.mkdir(parents=True)
    for title, *lines in _paragraphs("notes"):
        _write(folder / "notes" / f"{title}.md", f"# {title}\n\n{' '.join(lines)}\n")
    (folder / "calendar.ics").write_bytes(new_calendar(_events(today)).to_ical())
    _write_mails(folder / "mail.mbox", today)
    for path, *lines in _paragraphs("files"):
        _write(folder / path, " ".join(lines) + "\n")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _events(today: dt.date) -> Iterator[icalendar.Event]:
    for days, start, end, title in _EVENTS:
        yield _event(title, today + dt.timedelta(days), start, end)
    start, end, title = _WEEKLY
    weekly = _event(title, today + dt.timedelta(2 - 28), start, end)
    weekly.add("rrule", {"freq": "weekly"})
    yield weekly
    days, length, title = _ALL_DAY
    yield new_event(title, today + dt.timedelta(days), dt.timedelta(length))


def _event(title: str, day: dt.date, start: str, end: str) -> icalendar.Event:
    first, last = (dt.datetime.combine(day, dt.time.fromisoformat(clock)) for clock in (start, end))
    return new_event(title, first, last - first)


def _write_mails(path: Path, today: dt.date) -> None:
    read, new = _paragraphs("read_mails"), _paragraphs("new_mails")
    last = dt.datetime.combine(today, dt.time(7), dt.UTC)
    box = mailbox.mbox(path, create=True)
    try:
        for number, (sender, subject, *lines) in enumerate([*read, *new]):
            sent = last - dt.timedelta(hours=5 * (len(read) + len(new) - number))
            mail = EmailMessage()
            mail["From"] = sender
            mail["To"] = "me@example.org"
            mail["Subject"] = subject
            mail["Date"] = format_datetime(sent)
            mail["Message-ID"] = f"<{number}@sample.agentrt>"
            mail.set_content(" ".join(lines))
            message = mailbox.mboxMessage(mail)
            message.set_from("MAILER-DAEMON", sent.timetuple())
            if number < len(read):
                message.set_flags("RO")
            box.add(message)
        box.flush()
    finally:
        box.close()


def _paragraphs(name: str) -> list[list[str]]:
    return [paragraph.splitlines() for paragraph in _TEXTS[name].strip().split("\n\n")]
