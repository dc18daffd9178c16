"""Arguments of calls as the user has said them, and what to ask where the user has not."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from .dates import find_days, parse_days
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
_WORD: Final = re.compile(r"\w+")
_ADDING: Final = re.compile(r"(?i)^(?:add|put|schedule|create|enter|set up|make)(?: an?| the)?(?: event)? ")
_DICTATED: Final = re.compile(
    r"(?:\bnotes?(?: down)?(?: that| to|:)?|\bwrite down(?: that|:)?|\bremember(?: that|:)?|\bsave this:?)"
    r" (.+)",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE_END: Final = re.compile(r"\s+and\s+|[,;.]\s+")
_DIGIT: Final = re.compile(r"\d")
_FILLING: Final = frozenset({"a", "an", "the", "to", "is", "0", "am", "pm", "event"})


def settle(
    name: str, arguments: Mapping[str, Any], question: str, before: str, today: dt.date
) -> dict[str, Any] | str:
    """Return the arguments of a call in the user's words, or what to ask the user.

    These are those of the ``question``, and of the message ``before``.
    """
    said = f"{question} {before}"
    settled = dict(arguments)
    if name == "add_event":
        settled["title"] = _ADDING.sub("", str(settled.get("title", ""))).strip() or settled.get("title", "")
        if (clause := _clause_with(settled["title"], question)) is not None:
            said = clause
    if name == "create_note" and not _has(said, str(settled.get("text", ""))):
        # What a model words otherwise, it has often made up.
        dictated = _DICTATED.search(question)
        settled["text"] = dictated[1].strip() if dictated else ""
    for argument, asked in _OWN.get(name, {}).items():
        if not _has(said, str(settled.get(argument, ""))):
            return asked
    if "query" in settled and not _has_any(said, str(settled["query"])):
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
    """Return whether all words of ``value`` that say something are in ``said``."""
    words = {_canonical(word) for word in _WORD.findall(said.casefold())}
    own = {_canonical(word) for word in _WORD.findall(value.casefold())} - _FILLING
    return bool(own) and own <= words


def _has_any(said: str, value: str) -> bool:
    return bool({*_WORD.findall(said.casefold())} & {*_WORD.findall(value.casefold())})


def _canonical(word: str) -> str:
    # "9" is "09" and in "9am".
    return re.sub(r"^0+(?=\d)|(?<=\d)(?:am|pm|h)$", "", word)


def _is_day(text: str, today: dt.date) -> bool:
    with suppress(ToolError):
        parse_days(text, today)
        return True
    return False
