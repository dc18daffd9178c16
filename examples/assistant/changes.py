"""Events that a message wants cancelled or moved, and notes that it wants deleted; or what to ask instead.

What is meant is found in the calendar and among the notes by its words. Where several may be meant, or none,
or the message only thinks about it, nothing changes.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from . import phrases
from .calendar import ALL_DAY, Dated, title_words
from .data import PersonalData
from .dates import find_days, parse_date, parse_days, parse_time
from .errors import ToolError
from .notes import Note
from .references import PLACE, index_of
from .results import Made, dated
from .retrieval import content_words, retrieve
from .search import STOP_WORDS
from .writes import QUESTION, Call, find_time, is_headed, is_held_back, read_event

Thing: TypeAlias = Dated | Note

CHANGES: Final = frozenset({"delete_note", "delete_event", "move_event"})
"""The tools."""
MEANT_EVENT: Final = "Which event?"
MEANT_NOTE: Final = "Which note?"
TO_WHEN: Final = "To when?"
WHICH_ONE: Final = "Which one: "
"""What stands before those of which one may be meant."""
I_MEAN: Final = ", I mean "
"""In a message, before the answer to a question which one is meant."""
NOT_CHANGED: Final = "Nothing was changed. Say what to change, such as: move the dentist to Friday at 10:00."
DEPENDS: Final = "Nothing was changed, as it depends on something. Say so if it is to be."
_DAYS_AHEAD: Final = 30
_SURE: Final = 0.5
_SHORTEST_MISSPELT: Final = 5
_CALENDAR: Final = r"(?:my|the|our) (?:calend[ae]r|cal|diary|agenda|schedule)"
_CANCEL: Final = (
    r"cancel(?:l?ing)?|cancl|del|delet(?:e|ing)|throw(?:ing)? (?:away|out)|remov(?:e|ing)"
    r"|eras(?:e|ing)|get(?:ting)? rid of"
    r"|call(?:ing)?(?: off|(?= .+ off\b))"
)
_MOVE: Final = r"mov(?:e|ing)|re-?schedul(?:e|ing)|postpon(?:e|ing)"
_PERHAPS_CANCEL: Final = (
    r"scrap|drop(?:ping)?(?! (?:off|by|in|me|us|him|her)\b)"
    rf"|tak(?:e|ing)(?= .+ (?:off|out of|from) {_CALENDAR})"
)
"""Words that also mean something else: only what has the title of an event is one."""
_PERHAPS_MOVE: Final = r"push(?:ing)?|shift(?:ing)?|chang(?:e|ing)|put off|delay|bring"
BEGINS: Final = re.compile(
    rf",? (?:and then|and also|and|then) (?={phrases.POLITE}(?:{_CANCEL}|{_MOVE}) (?:the|my|our|that|it)\b)",
    re.IGNORECASE,
)
"""What stands between another request and one for a change."""
_ASKED: Final = re.compile(
    r"(?:^\W*|[,;:.!?\u2013-] *|\bso )(?:(?:i|we)(?:'ve| have)?(?: got)? (?:(?:have|need|want) to|must|to) )?"
    rf"{phrases.POLITE}(?P<no>(?:i (?:don'?t|do not) want (?:you )?to|i(?:'d| would) rather (?:you )?not"
    r"|don'?t|do not|never|no need to|not) (?:\w+ )?)?(?:help me )?"
    rf"(?:(?:{_CANCEL}|(?P<perhaps_cancel>{_PERHAPS_CANCEL}))"
    rf"|(?P<move>{_MOVE}|(?P<perhaps_move>{_PERHAPS_MOVE}))) (?!(?:to|in|into|out|on|away)\b)(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_ADDS: Final = re.compile(r"^\W*(?:add|put|enter|schedule|create|write)\b", re.IGNORECASE)
POINTS_BACK: Final = re.compile(
    rf"^\W*{phrases.POLITE}(?:{_CANCEL}|{_MOVE}|tak(?:e|ing)|call(?:ing)?) (?:it|that|this)\b", re.IGNORECASE
)
"""How a request begins for the change of something that is told before it: "Delete it please."."""
TAKEN_BACK: Final = re.compile(
    r"\b(?:never ?mind|forget it|no wait)\b(?!.*\b(?:cancel|delete|remove|move)\b)", re.IGNORECASE
)
_DECLINED: Final = re.compile(rf"(?:{I_MEAN}|\bto )(?:no|none|neither|nothing|stop)\b", re.IGNORECASE)
_AS_BEFORE: Final = re.compile(r"\b(?:instead|rather|(?:at )?(?:the )?same (?:time|day))\b", re.IGNORECASE)
_REASON: Final = re.compile(
    r"(?:,? (?:because|since|(?:i )?(?:don'?t|do not|no longer) need (?:it|that|them))"
    r"|, (?!i mean )(?:i|i'[md]|we|it|it's|he|she|they|there|my))\b.*?(?=, I mean |$)",
    re.IGNORECASE,
)
_TAIL: Final = re.compile(
    r"(?:[ ,]+(?:please|pls|plz|thanks|thank you|thx|again|for me|will you|would you|can you"
    r"|ok(?:ay)?|then|now"
    rf"|by .*|(?:off|out of|from|in|on)(?: {_CALENDAR})?))+\W*$|\W+$",
    re.IGNORECASE,
)
_TO: Final = re.compile(r"\b(?:to|until|till|for)\b", re.IGNORECASE)
_BARE_HOUR: Final = re.compile(r"^ *(?=\d{1,2}(?: (?:on|tomorrow|today)\b|\W*$))")
_AND: Final = re.compile(r"\band\b|[&,]", re.IGNORECASE)
_UNTOUCHED: Final = re.compile(
    r"\b(?:all(?!-| hands)|every\w*|each|both|these|those|them|any\w*"
    r"|(?:two|three|several|\d+)(?= (?!days|hours|minutes|weeks)\w+s\b)"
    r"|events|appointments|meetings|notes(?! *$)|entries|things|m\d{1,6})\b|^(?:my |the )?notes\b"
    rf"|{phrases.MAIL.pattern}|{phrases.FILES.pattern}",
    re.IGNORECASE,
)
"""What stays: several things at once, mail and files."""
_PART: Final = re.compile(r"\b(?:from|off|out of|line|item|word|part)\b(.*)", re.IGNORECASE)
"""Of a note, or of those who come to an event: that cannot be taken out."""
_NOTE: Final = re.compile(
    r"^.*\b(?P<id>n\d{1,6})$|^(?P<name>.*?)\bnote\b(?P<about>.*)$|^(?P<listed>.+) from (?:my|the) notes$",
    re.IGNORECASE | re.DOTALL,
)
_POINTS: Final = re.compile(
    r"^(?:it|(?:this|that|the)(?: (?:one|event|appointment|note))?"
    rf"|(?:the )?(?:{PLACE.pattern})(?: (?:one|event|appointment|note))?)$",
    re.IGNORECASE,
)
"""At a thing that was shown."""
_KINDS_OF_EVENT: Final = frozenset({"event", "appointment", "meeting", "entry", "session", "thing", "date"})
_NO_WORDS: Final = STOP_WORDS | frozenset(
    """
    s t one time back forward out am pm o clock calendar diary agenda schedule booked planned scheduled cancel
    delete remove move upcoming can cannot make won be two three half minutes hour hours day days week weeks
    later earlier
    """.split()  # noqa: SIM905
)
"""Words that say nothing about which event is meant."""


def wanted_changes(
    message: str, context: str, data: PersonalData, today: dt.date, before: Sequence[Made]
) -> list[Call] | str | None:
    """Return the call for the change that ``message`` asks for, or what to ask or say; None if for none.

    ``context`` is said around it; ``before`` has the calls for the message before.
    """
    asked = _ASKED.search(message)
    lead = message[: asked.start()].strip() if asked else ""
    if not asked or QUESTION.match(message) or is_headed(message) or _ADDS.match(lead):
        return None
    what = _REASON.sub("", " ".join(asked["what"].split()))
    if asked["no"] or TAKEN_BACK.search(message) or _DECLINED.search(message):
        return NOT_CHANGED
    if phrases.IF.search(lead) or is_held_back(_AS_BEFORE.sub(" ", what)):
        return DEPENDS
    moves = asked["move"] is not None
    target, when = _split(what, today) if moves else (what, "")
    target, _, meant = target.partition(I_MEAN)
    target = _TAIL.sub("", target)
    note = _NOTE.match(target)
    named = (note["name"] or "") if note else target
    part = _PART.search(named)
    if part and not (find_days(part[1], today) or find_time(part[1])):
        return None
    if not target or (moves and note) or _UNTOUCHED.search(named):
        return None
    find = _note if note else _event
    if _POINTS.match(target):
        shown = _shown(before, data, today)
        if not (shown or lead) and any(call.name.endswith(("_mail", "_file", "_files")) for call in before):
            return None
        kind: Any = Note if note else Dated if moves or "event" in target else Thing
        found = _one([each for each in shown if isinstance(each, kind)], f"{target} {meant}", today)
        found = found or (meant and find(meant, "", data, today))
        if not found and (note or re.search(r"\bnotes?\b", f"{lead} {context}")) and not moves:
            found = _note_that_was_told(f"{lead} {context}", data, today)
        elif not found:
            found = _told(f"{lead} {context}", data, today)
        found = found or (MEANT_NOTE if note else MEANT_EVENT)
    else:
        found = find(target, meant, data, today)
        if found == MEANT_NOTE:
            found = _note_that_was_told(f"{lead} {context}", data, today) or found
    if not isinstance(found, str):
        return _call(found, when, data, today, moves=moves)
    is_doubtful = asked["perhaps_cancel"] or asked["perhaps_move"] or _AND.search(target)
    return None if is_doubtful and not found.startswith(WHICH_ONE) else found


def _call(thing: Thing, when: str, data: PersonalData, today: dt.date, *, moves: bool) -> list[Call] | str:
    if isinstance(thing, Note):
        return [("delete_note", {"id": thing.id, "title": thing.title})]
    event = {"title": thing.title, "date": f"{thing.date}"}
    try:
        data.calendar.single(**event)
    except ToolError as error:
        return f"I cannot do that: {error}."
    if not moves:
        return [("delete_event", event)]
    rest, day, clock = read_event(when, today)
    if rest or not (day or clock) or (not day and find_days(when, today)):
        return TO_WHEN
    time = f"{parse_time(clock):%H:%M}" if clock else thing.time.replace(ALL_DAY, "")
    new = {"new_date": f"{parse_date(day, today) if day else thing.date}", "new_time": time}
    return [("move_event", event | new)]


def _split(what: str, today: dt.date) -> tuple[str, str]:
    """Return what is to be moved, and to when; empty where that is not clear."""
    when, begin = "", len(what)
    for marker in reversed(list(_TO.finditer(what))):
        rest = what[marker.end() : begin]
        rest = rest if when else _BARE_HOUR.sub(" at ", rest)
        if find_days(rest, today) or find_time(rest):
            if not when:
                when, begin = rest, marker.start()
            elif marker[0].casefold() != "for":  # from one time to another
                return what[: marker.start()], ""
    when, mean, meant = when.partition(I_MEAN)
    return what[:begin] + mean + meant, _AS_BEFORE.sub(" ", when)


def _one(found: Sequence[Thing], said: str, today: dt.date) -> Thing | str:
    """Return the thing that is meant, or the question which one; nothing if there is none."""
    if place := PLACE.search(said):
        found = found[index_of(place[0].casefold()) :][:1]
    if len(found) > 1:
        names = [each.title if isinstance(each, Note) else dated(each, today) for each in found]
        return f"{WHICH_ONE}{'; '.join(names)}?"
    return found[0] if found else ""


def _event(text: str, meant: str, data: PersonalData, today: dt.date) -> Thing | str:
    """Return the event whose title has the words of ``text``, or what to ask or say instead.

    ``meant`` is the answer to the question which one.
    """
    left = " ".join(re.sub(r"[,;?!]", " ", text if PLACE.search(meant) else f"{text} {meant}").split())
    first, last = today, today + dt.timedelta(days=_DAYS_AHEAD)
    near = data.calendar.find(first, last)
    if found := _titled(near, _words(left)):  # a title may have a day: "Cabin weekend"
        return _one(found, meant, today)
    clock, span = read_event(left, today)[2], None
    if time := find_time(left):
        left = f"{left[: time.start()]} {left[time.end() :]}"
    while day := find_days(left, today):
        span, left = parse_days(day, today), " ".join(left.split()).replace(day, " ", 1)
    words = _words(left)
    certain = [word for word in words if word not in _KINDS_OF_EVENT]
    if not (certain or span or clock):
        return MEANT_EVENT
    if span:
        first, last = span
        near = data.calendar.find(first, last)
    if clock:
        near = [each for each in near if each.time == f"{parse_time(clock):%H:%M}"]
    if found := _titled(near, words) or _titled(near, certain) or ([] if certain else near):
        return _one(found, meant, today)
    days = " to ".join(dict.fromkeys(f"{day:%A} {day.day} {day:%B}" for day in (first, last)))
    where = f"on {days}" if span else f"in the next {_DAYS_AHEAD} days"
    return " ".join(["There is no event", *words, f"{where}. Nothing was changed."])


def _told(text: str, data: PersonalData, today: dt.date) -> Thing | str:
    """Return the event that most words of what is told are about, or the question which one."""
    near, said = data.calendar.find(today, today + dt.timedelta(days=_DAYS_AHEAD)), {*_words(text)}
    titles = [(each, _words(each.title)) for each in near]
    about = [(len(said.intersection(words)), each) for each, words in titles if _is_about(said, words)]
    most = max([0, *(count for count, _ in about)])
    return _one([each for count, each in about if count == most], "", today)


def _note_that_was_told(text: str, data: PersonalData, today: dt.date) -> Thing | str:
    """Return the note that what is told is about; nothing where that is not clear."""
    found = _note(re.sub(r"\bnotes?\b", " ", text), "", data, today)
    return found if isinstance(found, Note) else ""


def _is_about(said: set[str], title: Sequence[str]) -> bool:
    """Return whether all of a short title was said, or most of a longer one: one word is met by chance."""
    return len(said.intersection(title)) * 3 > len(title) * 2 or (len(title) == 1 and title[0] in said)


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


def _note(text: str, meant: str, data: PersonalData, today: dt.date) -> Thing | str:
    """Return the note that ``text`` is about, as :func:`_event` does."""
    said = _NOTE.match(text)
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
    return _one(found, meant, today) or f"There is no note about {' '.join(words)}. Nothing was changed."


def _shown(before: Sequence[Made], data: PersonalData, today: dt.date) -> list[Thing]:
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
