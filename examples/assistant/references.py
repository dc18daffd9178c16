"""What a message points at of what was found before it: "read the second one", "what does she want?"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from .phrases import THE_ONE, any_case
from .results import Made
from .retrieval import TEXT_TOOLS, content_words

Call: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of a tool and its arguments."""
READERS: Final = {tools.search: tools.read for tools in TEXT_TOOLS.values()}
"""What reads one of the things that a tool has found."""
_PLACES: Final = (("first", "1st"), ("second", "2nd"), ("third", "3rd"), ("fourth", "4th"), ("fifth", "5th"))
PLACE: Final = any_case(
    rf"\b(?:{'|'.join('|'.join(names) for names in _PLACES)})\b(?= (?:one|mail|e-?mail|note|file)\b|\W*$)"
    r"|\blast(?= one\b)"
)
_PRONOUN: Final = any_case(
    r"\b(?:it|that|he|she|they|this(?! (?:morning|noon|afternoon|evening|week|weekend|month|\w+day)\b))\b"
)
_POLITE: Final = r"(?:(?:please|can you|could you|would you|and|then|now|ok)[, ]+)*"
_READING: Final = any_case(
    rf"{_POLITE}(?:(?:read|open|show|summar\w+|tell me)\b|(?:what|how) about\b|(?:what|who|when|where"
    rf"|how (?:much|many|often|long)|(?:on|at|in|from|for) (?:which|what|whom)(?: \w+)?)(?:'s| does| did| is"
    rf"| was| do| are)?\b|(?:the )?(?:{PLACE.pattern}))"
)
"""How a message begins that wants to know what is in something."""
_BESIDE: Final = any_case(
    r"\b(?:(?:(?P<other>other)|(?P<on>next|following)|(?P<back>previous)) (?:one|mail|e-?mail|note|file)\b"
    r"|(?:one|mail|e-?mail|note) (?:right )?(?:(?P<after>after|below)|(?P<before>before|above))\b)"
)
"""A thing beside the one that was read last."""
_LONGEST: Final = 60
"""Characters of a message that points at something. A longer one says what it is about."""


def referred(
    question: str, before: Sequence[Made], earlier: Sequence[Made], mails: Sequence[str] = ()
) -> Call | None:
    """Return the call that reads what ``question`` points at; None if it points at nothing.

    An ordinal means a thing of the latest list, a pronoun what was read for the last message, or the only
    thing that was found for it: ``before`` has the calls for the last message, ``earlier`` those before.
    "The one before that" is a neighbour in that list, or among ``mails``, of which the newest is the first.
    """
    if (beside := _BESIDE.search(question)) and not content_words(_BESIDE.sub(" ", question)):
        return _beside(beside, [*earlier, *before], mails)
    if (one := THE_ONE.search(question)) and (lists := _lists_of([*earlier, *before])):
        return _named_in(lists[-1], content_words(question[one.end() :]))
    if len(question) > _LONGEST or not _READING.match(question):
        return None
    if place := PLACE.search(question):
        lists = _lists_of([*earlier, *before])
        return _reading(lists[-1], index_of(place[0].casefold())) if lists else None
    if before and _PRONOUN.search(question):
        last = before[-1]
        if last.name == "create_note" and not last.failed:
            return "read_note", {"id": json.loads(last.result)["saved"]}
        if last.name in READERS.values() and not last.failed:
            return last.name, last.arguments
        if last.name in READERS and not last.failed and len(json.loads(last.result)) == 1:
            return _reading(last, 0)
    return None


def _lists_of(calls: Sequence[Made]) -> list[Made]:
    return [call for call in calls if call.name in READERS and not call.failed]


def _named_in(search: Made, words: Sequence[str]) -> Call | None:
    """Return the call that reads the only thing that ``search`` has found with one of ``words``."""
    found = [json.dumps(each).casefold() for each in json.loads(search.result)]
    places = [place for place, text in enumerate(found) if any(word in text for word in words)]
    return _reading(search, places[0]) if len(places) == 1 else None


def _beside(way: re.Match[str], calls: Sequence[Made], mails: Sequence[str]) -> Call | None:
    """Return the call that reads a neighbour of what was read last."""
    read = [call for call in calls if call.name in READERS.values() and not call.failed]
    if not read:
        return None
    last = read[-1]
    ((key, here),) = last.arguments.items()
    lists = [
        [str(each[key]) for each in json.loads(call.result)]
        for call in calls
        if READERS.get(call.name) == last.name and not call.failed
    ]
    lists = [each for each in lists if here in each]
    if way["other"]:
        others = [each for each in (lists[-1] if lists else ()) if each != here]
        seen = [str(call.arguments[key]) for call in read if call.name == last.name]
        others = others if len(others) == 1 else [each for each in seen if each != here][-1:]
        return (last.name, {key: others[0]}) if others else None
    shown = lists[-1] if lists else list(mails) if last.name == "read_mail" else []
    if here not in shown:
        return None
    goes_on = way["on"] or way["after"]
    if not lists:  # all mails: what came before the newest is the next of them
        goes_on = not goes_on
    place = shown.index(here) + (1 if goes_on else -1)
    if lists and place < 0:
        place = 1
    return (last.name, {key: shown[place]}) if 0 <= place < len(shown) else None


def index_of(place: str) -> int:
    """Return the index that an ordinal in lower case means."""
    return next((number for number, names in enumerate(_PLACES) if place in names), -1)


def _reading(search: Made, index: int) -> Call | None:
    """Return the call that reads the thing at ``index`` of what ``search`` has found."""
    found = json.loads(search.result)
    if not -len(found) <= index < len(found):
        return None
    key = "path" if "path" in found[index] else "id"
    return READERS[search.name], {key: found[index][key]}
