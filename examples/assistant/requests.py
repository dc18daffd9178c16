"""What the user of the demo asks, made from the data at hand so that every question has an answer."""

from __future__ import annotations

import re

from .data import PersonalData


def requests_about(data: PersonalData) -> list[str]:
    """One-step and two-step questions, a write, a wish that no tool fits, and a greeting.

    Each takes one turn. Questions about notes, mail and files are left out where there are none.
    """
    requests = ["Hello!", "What is the weather in Lisbon?"]
    mails, notes, paths = data.mail.all(), data.notes.all(), list(data.files.versions())
    if mails:
        requests.append(f"What does the mail about {_topic(mails[0].subject)} say?")
    requests.append("What is on my calendar tomorrow?")
    if notes:
        requests.append(f"What does my note about {_topic(notes[0].title)} say?")
    requests.append("How warm is it in Bergen?")
    if paths:
        requests.append(f"Read the file {paths[0]}")
    return [*requests, "Write a note: buy candles and a new kettle", "Turn off the light in the kitchen"]


def _topic(title: str) -> str:
    words = re.findall(r"\w+", re.sub(r"(?i)^\s*((re|fwd?):\s*)+", "", title))
    return " ".join(words[:4]).lower()
