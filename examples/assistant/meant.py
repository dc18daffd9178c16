"""Which event or note a message means: one of that title, one that is spoken of, or what was shown last."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Final, TypeAlias

from .calendar import Dated, title_words
from .data import PersonalData
from .dates import parse_days, parse_time
from .errors import ToolError
from .notes import Note
from .phrases import any_case
from .references import PLACE, index_of
from .results import Made, dated
from .retrieval import content_words, retrieve
from .search import STOP_WORDS
from .when import days_in, times_in, without
from .writes import read_event

Thing: TypeAlias = Dated | Note
MEANT_EVENT: Final = "Which event?"
MEANT_NOTE: Final = "Which note?"
WHICH_ONE: Final = "Which one: "
"""What stands before those of which one may be meant."""
NOTHING_FOUND: Final = "There is no "
_DAYS_AHEAD: Final = 30
_SURE: Final = 0.5
_SHORTEST_MISSPELT: Final = 5
NAMES_NOTE: Final = any_case(
    r"(?s)^.*\b(?P<id>n\d{1,6})$|^(?P<name>.*?)\bnote\b(?P<about>.*)$|^(?P<listed>.+) from (?:my|the) notes$"
)
_KINDS_OF_EVENT: Final = frozenset({"event", "appointment", "meeting", "entry", "session", "thing", "date"})
_NO_WORDS: Final = STOP_WORDS | frozenset(
    """
    s t one time back forward out am pm o clock calendar diary agenda schedule booked planned scheduled cancel
    delete remove move upcoming can cannot make won be two three half minutes hour hours day days week weeks
    later earlier
    """.split()  # noqa: SIM905
)
"""Words that say nothing about which event is meant."""


_ASIDE: Final = any_case(r"\b(?:besides|except|other|else|apart|after|before|but|not|than|around|near)\b")


def find_event(text: str, meant: str, data: PersonalData, today: dt.date) -> Thing | str:
    """Return the event whose title has the words of ``text``, or what to ask or say instead.

    ``meant`` is the answer to the question which one.
    """
    left = " ".join(re.sub(r"[,;?!]", " ", text if PLACE.search(meant) else f"{text} {meant}").split())
    first, last = today, today + dt.timedelta(days=_DAYS_AHEAD)
    near = data.calendar.find(first, last)
    if found := _titled(near, _words(left)):  # a title may have a day: "Cabin weekend"
        return one_of(found, meant, today)
    clock, days = read_event(left, today)[2], days_in(left, today)
    words = _words(without(left, [*days, *times_in(left)]))
    certain = [word for word in words if word not in _KINDS_OF_EVENT]
    if not (certain or days or clock):
        return MEANT_EVENT
    if days:
        first, last = days[-1].first, days[-1].last
        near = data.calendar.find(first, last)
    if clock:
        near = [each for each in near if each.time == f"{parse_time(clock):%H:%M}"]
    if found := _titled(near, words) or _titled(near, certain) or ([] if certain else near):
        return one_of(found, meant, today)
    looked_at = " to ".join(dict.fromkeys(f"{day:%A} {day.day} {day:%B}" for day in (first, last)))
    where = f"on {looked_at}" if days else f"in the next {_DAYS_AHEAD} days"
    return " ".join([f"{NOTHING_FOUND}event", *words, f"{where}. Nothing was changed."])


def find_note(text: str, meant: str, data: PersonalData, today: dt.date) -> Thing | str:
    """Return the note that ``text`` is about, as :func:`find_event` does."""
    said = NAMES_NOTE.match(text)
    try:
        if said and said["id"]:
            return data.notes.read(said["id"])
        about = " ".join(filter(None, said.groups())) if said else text
        words = content_words(about if PLACE.search(meant) else f"{about} {meant}")
        if not words:
            return MEANT_NOTE
        found = [note for note in data.notes.all() if {*words} <= {*content_words(note.title)}]
        text_of = retrieve(words, data, ("notes",))
        if not found and text_of and text_of.coverage >= _SURE:
            found = [data.notes.read(text_of.name)]
    except ToolError as error:  # there is none of that number
        return f"I cannot do that: {error}."
    return one_of(found, meant, today) or f"{NOTHING_FOUND}note about {' '.join(words)}. Nothing was changed."


def note_told_of(text: str, data: PersonalData, today: dt.date) -> Thing | str:
    """Return the note that what is told is about; nothing where that is not clear."""
    found = find_note(re.sub(r"\bnotes?\b", " ", text), "", data, today)
    return found if isinstance(found, Note) else ""


def event_said(text: str, days: Sequence[dt.date], data: PersonalData, today: dt.date) -> Dated | None:
    """Return the one event whose title is said, or of which a word is said together with its day."""
    said = title_words(text)
    near = data.calendar.find(today, today + dt.timedelta(days=_DAYS_AHEAD))
    found = [each for each in near if title_is_said(each.title, said)]
    found = found or [each for each in near if each.date in days and _said_of(each.title, said)]
    if len(found) > 1:
        found = [each for each in found if each.date in days]
    return found[0] if len(found) == 1 else None


def event_spoken_of(before: Sequence[Made], data: PersonalData, today: dt.date) -> Dated | None:
    """Return the one event whose title is in the texts that were read for the message before."""
    texts = " ".join(call.result for call in before if call.has_text)
    return event_said(texts, (), data, today) if texts else None


def shown_by(before: Sequence[Made], data: PersonalData, today: dt.date) -> list[Thing]:
    """Return the notes and events that were shown or written for the last message, as they are now."""
    shown: list[Thing] = []
    for call in (call for call in before if not call.failed):
        with suppress(ToolError, ValueError):  # it is gone, or the result is a text
            found = json.loads(call.result)
            if call.name in ("read_note", "search_notes", "create_note"):
                listed = found if isinstance(found, list) else [call.arguments | found]
                shown += [data.notes.read(each.get("saved") or each["id"]) for each in listed]
            elif call.name in ("list_events", "add_event", "move_event"):
                titles = (
                    [each["title"] for each in found] if isinstance(found, list) else [*found.values()][:1]
                )
                days = parse_days(str(call.arguments.get("new_date") or call.arguments["date"]), today)
                shown += [each for each in data.calendar.find(*days) if each.title in titles]
    return shown


def event_shown_last(calls: Sequence[Made], data: PersonalData, today: dt.date) -> Dated | None:
    """Return the event that was shown or written last, if it was alone."""
    shown = (shown_by([call], data, today) for call in reversed(calls))
    events = next(filter(None, ([each for each in one if isinstance(each, Dated)] for one in shown)), [])
    return events[0] if len(events) == 1 else None


def one_of(found: Sequence[Thing], said: str, today: dt.date) -> Thing | str:
    """Return the thing that is meant, or the question which one; nothing if there is none."""
    if place := PLACE.search(said):
        found = found[index_of(place[0].casefold()) :][:1]
    if len(found) > 1:
        names = [each.title if isinstance(each, Note) else dated(each, today) for each in found]
        return f"{WHICH_ONE}{'; '.join(names)}?"
    return found[0] if found else ""


def named_of(shown: Sequence[Thing], said: str) -> list[Thing]:
    """Return those of what was ``shown`` of whose title a word is ``said``, and not to leave it aside."""
    words = [] if _ASIDE.search(said) else title_words(said)
    return [each for each in shown if _said_of(each.title, words)]


def _said_of(title: str, said: Sequence[str]) -> list[str]:
    words = [word for word in _words(title) if word not in _KINDS_OF_EVENT]
    return [word for word in words if _is_like_one(word, said)]


def title_is_said(title: str, said: Sequence[str]) -> bool:
    """Return whether all of a short title was said, or most of a longer one."""
    return 3 * len(_said_of(title, said)) > 2 * len(_words(title)) > 0


def _words(text: str) -> list[str]:
    return [word for word in title_words(text) if word not in _NO_WORDS]


def _titled(events: Sequence[Dated], words: Sequence[str]) -> list[Dated]:
    """Return the events whose title has all ``words``; sooner those without others, then well spelt ones."""
    titles = [(each, _words(each.title)) for each in events if words]
    found = [each for each in titles if {*words} <= {*each[1]}]
    found = found or [each for each in titles if all(_is_like_one(word, each[1]) for word in words)]
    return [event for event, title in found if title == words] or [event for event, _ in found]


def _is_like_one(word: str, title: Sequence[str]) -> bool:
    if len(word) < _SHORTEST_MISSPELT:
        return word in title
    return any(each.startswith(word) for each in title) or bool(get_close_matches(word, title, 1, 0.85))
