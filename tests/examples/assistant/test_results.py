"""Results in sentences."""

import datetime as dt
import json
from typing import Any

import pytest

from agentrt.examples.assistant.results import Made, state

WEDNESDAY = dt.date(2026, 11, 18)
WEATHER = "In Oslo it is 4 degrees now, fog (made up: no weather service is asked)."
MAIL = {"id": "m1", "from": "Anna", "subject": "Roof"}


@pytest.mark.parametrize(
    ("name", "arguments", "result", "stated"),
    [
        ("list_events", {"date": "today"}, [], "Nothing is on your calendar today, Wednesday, November 18."),
        (
            "list_events",
            {"date": "next week"},
            [{"time": "Monday 9:00", "title": "Work"}],
            "On your calendar from Monday, November 23 to Sunday, November 29: Monday 9:00 Work.",
        ),
        (
            "list_events",
            {"date": "today"},
            [{"time": "09:30", "title": "Dentist", "until": "10:00", "place": "Mill Lane 4"}],
            "On your calendar today, Wednesday, November 18: 09:30 to 10:00 Dentist (Mill Lane 4).",
        ),
        (
            "add_event",
            {},
            {"added": "lunch", "date": "Friday", "time": "12:00"},
            "Added to your calendar: lunch, on Friday, November 20 at 12:00.",
        ),
        (
            "add_event",
            {},
            {"added": "yoga", "date": "Friday", "time": "half six", "begins": "06:30"},
            "Added to your calendar: yoga, on Friday, November 20 at half six (06:30).",
        ),
        (
            "delete_event",
            {},
            {"cancelled": "Dentist", "date": "2026-11-26", "time": "09:30"},
            "Cancelled: Dentist, Thursday 26 November 09:30.",
        ),
        (
            "move_event",
            {},
            {"moved": "Cabin", "date": "2027-01-02", "time": "all day"},
            "Moved: Cabin, Saturday 2 January 2027 all day.",
        ),
        (
            "delete_note",
            {},
            {"deleted": "n3", "title": "Boiler"},
            "Deleted the note: Boiler. Its file is kept in the hidden folder .deleted.",
        ),
        ("search_notes", {"query": "roof"}, [], "I found no note about roof."),
        ("search_notes", {"query": "all notes"}, [], "You have no notes."),
        ("search_notes", {"query": "notes"}, [{"id": "n1", "title": "A"}], "You have 1 note: A."),
        ("search_notes", {"query": "x"}, [{"id": "n1", "title": t} for t in "AB"], "I found 2 notes: A; B."),
        (
            "search_notes",
            {"query": "x"},
            [{"id": "n", "title": t} for t in "ABC"],
            "The best matches: A; B; C.",
        ),
        ("search_mail", {"query": "new mail"}, [MAIL], "The latest mails: Anna, Roof."),
        ("search_mail", {"query": "new mail"}, [], "You have no mail."),
        ("search_files", {"query": "all files"}, [{"path": "a.txt"}], "You have 1 file: a.txt."),
        ("search_files", {"query": "all files"}, [], "You have no files."),
        ("read_note", {"id": "n1"}, {"title": "Call Bob", "text": "Call Bob"}, "Call Bob"),
        ("get_weather", {}, {"city": "Oslo", "temperature": 4, "sky": "fog"}, WEATHER),
        ("read_note", {}, {"error": "no note with id n9"}, "That did not work: no note with id n9."),
        (
            "create_note",
            {},
            {"error": "the user has declined this call"},
            "You have declined it: nothing was done.",
        ),
        ("unknown", {}, {"a": 1}, '{"a": 1}'),
    ],
)
def test_stated(name: str, arguments: dict[str, Any], result: Any, stated: str) -> None:
    assert state(Made(name, arguments, json.dumps(result)), WEDNESDAY) == stated
