"""The agent tasks of the speculation bench: ten tools over fixed data, with a set latency, and requests."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from langchain_core.tools import BaseTool, tool

from agentrt import speculable

REQUESTS = (
    "What is the weather in Oslo?",
    "What does the mail about the roof repair say?",
    "What is on my calendar tomorrow?",
    "What does my note about lasagne say?",
    "Find my notes about the garden",
    "How warm is it in Lisbon?",
    "What does the file about the budget say?",
    "What is the weather in Bergen?",
    "Write a note: buy candles and a new kettle",
    "Search my mail for the train tickets",
    "What is on my calendar on Friday?",
    "Read the note about the boiler",
    "How is the weather in Turin?",
    "Find my files about the move",
    "What does the mail about the choir say?",
    "What is the weather in Porto?",
)

_NOTES = {
    "n3": ("Lasagne recipe", "Layer pasta, ragu and white sauce, then bake for 40 minutes."),
    "n5": ("Garden plan", "Beans along the fence, tomatoes by the wall."),
    "n8": ("Boiler", "The boiler was serviced in March. The next service is due in a year."),
}
_MAILS = {
    "m12": ("Berg Roofing", "Roof repair", "We will come on Tuesday at 9:00 and need two days."),
    "m15": ("Rail Direct", "Your train tickets", "Your train leaves at 7:42 from platform 3."),
    "m21": ("Anna", "Choir on Thursday", "Choir practice starts at 19:30 in the small hall."),
}
_FILES = {
    "home/budget.md": "Rent 900, food 350, savings 200.",
    "home/move.md": "Book the van, pack the books first.",
    "garden/beds.md": "Bed one rests this year.",
}


class TimedTools:
    """The tools, each of which sleeps ``latency_s``; ``seconds`` collects the time of each run."""

    def __init__(self) -> None:
        """Create the tools with a latency of 0."""
        self.latency_s = 0.0
        self.seconds: list[float] = []

    async def answer(self, result: Any) -> str:
        """Return a result as JSON, after the latency."""
        started = time.perf_counter()
        await asyncio.sleep(self.latency_s)
        self.seconds.append(time.perf_counter() - started)
        return json.dumps(result)

    def tools(self) -> list[BaseTool]:
        """Return the ten tools; those that only look something up are speculable."""
        answer = self.answer

        @speculable
        @tool
        async def search_notes(query: str) -> str:
            """Search the user's notes."""
            titles = {id: title for id, (title, _) in _NOTES.items()}
            return await answer([{"id": id, "title": titles[id]} for id in _matching(query, titles)])

        @speculable
        @tool
        async def read_note(id: str) -> str:
            """Read a note by id."""
            if id not in _NOTES:
                return await answer({"error": f"no note with id {id}"})
            return await answer({"title": _NOTES[id][0], "text": _NOTES[id][1]})

        @tool
        async def create_note(text: str) -> str:
            """Create a note."""
            return await answer({"saved": "n9"})

        @speculable
        @tool
        async def list_events(date: str) -> str:
            """List the events on a date."""
            return await answer([{"time": "18:00", "title": "Football practice"}])

        @tool
        async def add_event(title: str, date: str, time: str) -> str:
            """Add a calendar event."""
            return await answer({"added": title, "date": date, "time": time})

        @speculable
        @tool
        async def search_mail(query: str) -> str:
            """Search the mail."""
            subjects = {id: subject for id, (_, subject, _) in _MAILS.items()}
            found = _matching(query, subjects)
            return await answer([{"id": id, "from": _MAILS[id][0], "subject": subjects[id]} for id in found])

        @speculable
        @tool
        async def read_mail(id: str) -> str:
            """Read a mail by id."""
            if id not in _MAILS:
                return await answer({"error": f"no mail with id {id}"})
            sender, subject, body = _MAILS[id]
            return await answer({"from": sender, "subject": subject, "body": body})

        @speculable
        @tool
        async def search_files(query: str) -> str:
            """Search the files."""
            return await answer(
                [{"path": path} for path in _matching(query, {path: path for path in _FILES})]
            )

        @speculable
        @tool
        async def read_file(path: str) -> str:
            """Read a file."""
            if path not in _FILES:
                return await answer({"error": f"no file {path}"})
            return await answer({"path": path, "text": _FILES[path]})

        @speculable
        @tool
        async def get_weather(city: str) -> str:
            """Get the weather in a city."""
            return await answer({"city": city, "temperature": 12, "sky": "light rain"})

        return [
            search_notes, read_note, create_note, list_events, add_event,
            search_mail, read_mail, search_files, read_file, get_weather,
        ]  # fmt: skip


def _matching(query: str, texts: Mapping[str, str]) -> list[str]:
    """Return the keys of at most three texts that share a word with the query."""
    words = set(re.findall(r"\w+", query.lower())) - {"the", "a", "my", "about"}
    return [key for key, text in texts.items() if words & set(re.findall(r"\w+", text.lower()))][:3]
