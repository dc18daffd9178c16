"""What the user asks, made from the data at hand so that every question has an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePath

from .data import PersonalData


def requests_about(data: PersonalData) -> list[str]:
    """Questions that the assistant's own tools answer, and a write; none that no tool serves.

    Each takes one turn. Questions about notes, mail, calendars and files are left out where there are none.
    """
    mail = next(_topics(mail.subject for mail in data.mail.all()), None)
    note = next(_topics(note.title for note in data.notes.all()), None)
    path = next(iter(data.files.all()), None)
    requests = [
        f"What does the mail about {mail} say?" if mail else "",
        "What is the weather in Lisbon?",
        "What is on my calendar tomorrow?" if data.calendar.size()[0] else "",
        f"What does my note about {note} say?" if note else "",
        f"Read the file {path}" if path else "",
        "Write a note: buy candles and a new kettle",
    ]
    return [request for request in requests if request]


def demo_requests(data: PersonalData) -> list[str]:
    """What the demo asks: chains of two calls, two calls at once, single calls and a write.

    The kinds alternate, as they do for a person, so that a predictor that learns meets each kind again.
    """
    subjects = _topics(mail.subject for mail in data.mail.all())
    titles = _topics(note.title for note in data.notes.all())
    mails = [f"What does the mail about {topic} say?" for topic in islice(subjects, 3)]
    notes = [f"What does my note about {topic} say?" for topic in islice(titles, 2)]
    paths = list(islice(data.files.all(), 4))
    days = ["What is on my calendar tomorrow?"] if data.calendar.size()[0] else []
    files = [f"Read the file {path}" for path in paths[:1]]
    found = [f"What does the file about {PurePath(path).stem} say?" for path in paths[3:]]
    return [
        *mails[:1],
        "What is the weather in Paris and Rome?",
        "Search the web for kayak rental",
        *notes[:1],
        *mails[1:2],
        *days,
        "How warm is it in Bergen?",
        *mails[2:3],
        "Search the web for baking sourdough",
        *notes[1:2],
        *files,
        *found,
        "Write a note: buy candles and a new kettle",
    ]


def _topics(titles: Iterable[str]) -> Iterator[str]:
    """Yield the first words of each title that has any."""
    for title in titles:
        words = re.findall(r"\w+", re.sub(r"(?i)^\s*((re|fwd?):\s*)+", "", title))
        if words:
            yield " ".join(words[:4]).lower()
