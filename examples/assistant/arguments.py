"""Arguments of calls as the user has said them, and what to ask or decline where the user has not."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from .dates import find_days, parse_days, parse_time
from .errors import ToolError

_OWN: Final[Mapping[str, Mapping[str, str]]] = {
    "get_weather": {"city": "In which city?"},
    "create_note": {"text": "What should the note say?"},
    "add_event": {"title": "What is the event?", "time": "At what time?"},
}
"""Arguments that have no words but the user's, and the question for each."""
_WHICH_DAY: Final = "On which day?"
QUESTIONS: Final = frozenset({_WHICH_DAY, *(asked for own in _OWN.values() for asked in own.values())})
"""All that :func:`settle` asks."""
NOT_ASKED: Final = "I have written nothing. Say what to write, such as: add lunch on Friday at 12:00."
_ONE_HOUR: Final = (
    "I add single events of one hour only, in the time of this machine, and have added nothing. Say the day "
    "and the time at which it begins."
)
_NOT_WANTED: Final = re.compile(
    r"\b(?:not|never|don'?t|doesn'?t|won'?t|shouldn'?t|without)\b"
    r"|^\W*(?:am|is|are|was|were|do|does|did|should|shall|may|might|have|has|what|when|where|who|why|how|which"
    r"|if)\b",
    re.IGNORECASE,
)
"""In a part of a message that forbids a write, or asks about one."""
_REMINDED: Final = re.compile(r"\b(?:do not|don'?t) forget\b", re.IGNORECASE)
_WRITES: Final = ("create_note", "add_event")
_BEYOND_ONE_HOUR: Final = re.compile(
    r"\b(?:every|each|weekly|daily|monthly|yearly|until|till|recurring)\b|\bfrom\b.+\b(?:to|until)\b"
    r"|\bfor (?:\d+|an?|two|three|half an?) ?(?:hours?|h|days?|minutes?|min)\b"
    r"|\d ?(?:-|to) ?\d{1,2}(?::\d\d)?\b"
    r"|\btime ?zone\b|\b[A-Z]\w+/[A-Z]\w+\b",
)
_DICTATED: Final = re.compile(
    r"^(?:please |can you |could you )?"
    r"(?:(?:write|make|create|save|take|add)(?: me)?(?: a| down a)?(?: new)? note|note|write down|remember"
    r"|save this)"
    r"(?: that|:)? (.+)",
    re.IGNORECASE | re.DOTALL,
)
_WEATHER: Final = re.compile(
    r"weather|forecast|temperature|degrees|warm|cold|hot\b|rain|snow|sun|wind|storm|fog|umbrella|jacket|coat",
    re.IGNORECASE,
)
_PRONOUN: Final = re.compile(r"\b(?:it|that|this|them|those|these|one|ones)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")
_ADDING: Final = re.compile(r"(?i)^(?:add|put|schedule|create|enter|set up|make)(?: an?| the)?(?: event)? ")
_NAME: Final = re.compile(r"(?i)\b(?!at\b|on\b|the\b|am\b|pm\b)[^\W\d]{2,}")
_CLAUSE_END: Final = re.compile(r"\s+and\s+|[,;.]\s+")
_DIGIT: Final = re.compile(r"\d")
_FILLING: Final = frozenset({"a", "an", "the", "to", "is", "at", "on", "0", "am", "pm", "event", "events"})


def dictated_note(question: str) -> str | None:
    """Return the text of a note that the user dictates, to the letter; None if it is no dictation."""
    found = _DICTATED.match(question)
    return found[1].strip() or None if found and not _NOT_WANTED.search(question[: found.start(1)]) else None


def settle(
    name: str, arguments: Mapping[str, Any], question: str, before: str, today: dt.date
) -> dict[str, Any] | str:
    """Return the arguments of a call in the user's words, or what to say instead of the call.

    Those of a write are in the ``question``, others there or in the message ``before``.
    """
    settled = dict(arguments)
    if name in _WRITES and any(map(_NOT_WANTED.search, _CLAUSE_END.split(_REMINDED.sub("", question)))):
        return NOT_ASKED
    said = question if name in _WRITES else f"{question} {before}"
    if name == "add_event":
        if _BEYOND_ONE_HOUR.search(question):
            return _ONE_HOUR
        settled["title"] = _ADDING.sub("", str(settled.get("title", ""))).strip()
        if not _NAME.search(settled["title"]):
            settled["title"] = ""
        if (clause := _clause_with(settled["title"], question)) is not None:
            said = clause
        if not _is_time(str(settled.get("time", ""))):
            settled["time"] = ""
    if name == "get_weather":
        if not _WEATHER.search(said):
            return "I am not sure what you mean. Ask in other words."
        if _is_day(str(settled.get("city", "")), today):
            settled["city"] = ""
    for argument, asked in _OWN.get(name, {}).items():
        if not _has(said, str(settled.get(argument, ""))):
            return asked
    if "query" in settled and not _has(
        said if _PRONOUN.search(question) else question, str(settled["query"])
    ):
        settled["query"] = question
    if "date" in settled and not (_has(said, str(settled["date"])) and _is_day(str(settled["date"]), today)):
        day = find_days(said, today)
        if day is None:
            return _WHICH_DAY
        settled["date"] = day
    return settled


def _clause_with(title: str, question: str) -> str | None:
    """Return the clause of ``title`` in a question that has several times; None in one that has not."""
    clauses = _CLAUSE_END.split(question)
    if sum(_DIGIT.search(clause) is not None for clause in clauses) < 2:
        return None
    return next((clause for clause in clauses if _has(clause, title)), "")


def _has(said: str, value: str) -> bool:
    """Return whether all words of ``value`` that say something are in ``said``, and there are some."""
    words = {_canonical(word) for word in _WORD.findall(said.casefold())}
    own = {_canonical(word) for word in _WORD.findall(value.casefold())} - _FILLING
    return bool(own) and own <= words


def _canonical(word: str) -> str:
    # "9" is "09" and in "9am".
    return re.sub(r"^0+(?=\d)|(?<=\d)(?:am|pm|h)$", "", word)


def _is_day(text: str, today: dt.date) -> bool:
    with suppress(ToolError):
        parse_days(text, today)
        return True
    return False


def _is_time(text: str) -> bool:
    with suppress(ToolError):
        parse_time(text)
        return True
    return False
