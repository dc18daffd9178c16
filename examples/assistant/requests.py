"""What the user of the demo asks, made from the data at hand so that every question has an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .data import PersonalData


def requests_about(data: PersonalData) -> list[str]:
    """One-step and two-step questions, a write, a wish that no tool fits, and a greeting.

    Each takes one turn. Questions about notes, mail and files are left out where there are none.
    """
    mail = _topic(mail.subject for mail in data.mail.all())
    note = _topic(note.title for note in data.notes.all())
    path = next(iter(data.files.versions()), None)
    requests = [
        "Hello!",
        "What is the weather in Lisbon?",
        f"What does the mail about {mail} say?" if mail else "",
        "What is on my calendar tomorrow?",
        f"What does my note about {note} say?" if note else "",
        "How warm is it in Bergen?",
        f"Read the file {path}" if path else "",
        "Write a note: buy candles and a new kettle",
        "Turn off the light in the kitchen",
    ]
    return [request for request in requests if request]


def _topic(titles: Iterable[str]) -> str | None:
    """The first words of the first title that has any."""
    for title in titles:
        words = re.findall(r"\w+", re.sub(r"(?i)^\s*((re|fwd?):\s*)+", "", title))
        if words:
            return " ".join(words[:4]).lower()
    return None
