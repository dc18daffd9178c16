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
from .writes import QUESTION, Call, find_time, is_headed, is_held_back, read_event, said_time

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
_NONE: Final = "There is no "
_UNCLEAR: Final = (_NONE, TO_WHEN, MEANT_EVENT, MEANT_NOTE)
_DAYS_AHEAD: Final = 30
_EARLIER: Final = 2
"""Calls before those for the last message, whose texts may be meant."""
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
    r"scrap|trash|toss|chuck|ditch|axe|bin|kill|dump|drop(?:ping)?(?! (?:off|by|in|me|us|him|her)\b)"
    rf"|tak(?:e|ing)(?= .+ (?:off|out of|from) {_CALENDAR})"
)
"""Words that also mean something else: only what has the title of an event is one."""
_PERHAPS_MOVE: Final = (
    r"push(?:ing)?|shift(?:ing)?|chang(?:e|ing)|put (?:off|back)|delay|bring|bump|nudge|pull|scoot|slide|update"
    r"|put(?= (?:it|ours|mine|that|them) to\b)"
)
BEGINS: Final = re.compile(
    rf",? (?:and then|and also|and|then) (?={phrases.POLITE}(?:{_CANCEL}|{_MOVE}) (?:the|my|our|that|it)\b)",
    re.IGNORECASE,
)
"""What stands between another request and one for a change."""
_ASKED: Final = re.compile(
    r"(?:^\W*(?:(?:ok|okay|right|ac+tual+y|well|ugh|argh|hm+|ah|grand|lovely|good|fine) )*|[,;:.!?()\u2013-] *|\bso )(?:(?:i|we)(?:'ve| have)?(?: got)? (?:(?:have|need|want) to|must|to) )?"
    rf"{phrases.POLITE}(?P<no>(?:i (?:don'?t|do not) want (?:you )?to|i(?:'d| would) rather (?:you )?not"
    r"|don'?t|do not|never|no need to|not) (?:\w+ )?)?(?:help me )?"
    rf"(?:(?:{_CANCEL}|(?P<perhaps_cancel>{_PERHAPS_CANCEL}))"
    rf"|(?P<move>{_MOVE}|(?P<perhaps_move>{_PERHAPS_MOVE}))) (?!(?:to|in|into|out|on|away)\b)(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_ADDS: Final = re.compile(r"^\W*(?:add|put|enter|schedule|create|write)\b", re.IGNORECASE)
_OUT: Final = r"take|whip|knock|strike|get|pull|lift|cut|throw|toss|chuck|wipe|cross|clear|rub"
"""Verbs for what is cancelled, with "out", "off" and the like behind them."""
_ALTER: Final = rf"{_MOVE}|{_PERHAPS_MOVE}|adapt|adjust|correct|fix|alter|swap"
POINTS_BACK: Final = re.compile(
    rf"^\W*(?:{phrases.POLITE}(?:{_CANCEL}|{_PERHAPS_CANCEL}|{_ALTER}|{_OUT}|tak(?:e|ing)|call(?:ing)?"
    r"|bin|ditch|axe|strike) (?:it|that|this)\b|(?:away|out)(?: of .{1,20})? with (?:it|that|this)\b"
    r"|(?:please|pls) (?:change|cancel|delete|move)\W*$)",
    re.IGNORECASE,
)
"""How a request begins for the change of something that is told before it: "Delete it please."."""
TAKEN_BACK: Final = re.compile(
    r"\b(?:never ?mind|(?<!i )(?<!to )forget it|no wait)\b(?!.*\b(?:cancel|delete|remove|move)\b)", re.IGNORECASE
)
_DECLINED: Final = re.compile(rf"(?:{I_MEAN}|\bto )(?:no|none|neither|nothing|stop)\b", re.IGNORECASE)
_AS_BEFORE: Final = re.compile(
    r"\b(?:instead|rather|(?:at )?(?:the )?same (?:time|day|hour)"
    r"|(?:the )?(?:time|hour) (?:stays?|remain\w*)(?: (?:the same|as it is))?)\b", re.IGNORECASE
)
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
_FOLLOWS: Final = re.compile(r"\b(?:(?:directly|right|just) after|(?:which|that) follows|following)\b", re.IGNORECASE)
"""Said of a day that is to be counted from that of the event."""
_THEN: Final = re.compile(r"(?:[ ,]+(?:then|so|please|pls|plz|thanks|thx|again|for me))+\W*$", re.IGNORECASE)
_TO: Final = re.compile(r"\b(?:to|until|till|for)\b", re.IGNORECASE)
_BARE_HOUR: Final = re.compile(
    r"^ *(?=(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?: (?:on|tomorrow|today)\b|\W*$))",
    re.IGNORECASE,
)
_COUNTS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10,
    "fifteen": 15, "twenty": 20, "thirty": 30, "half an": 0.5, "half a": 0.5, "a quarter of an": 0.25,
}  # fmt: skip
_AMOUNT: Final = re.compile(
    rf"(?P<by>\bby )?\b(?P<count>{'|'.join(sorted(_COUNTS, key=len, reverse=True))}|\d{{1,3}}) ?"
    r"(?P<unit>min|h|hour|day|week)(?:ute)?s?\b(?P<more> and a half)?(?P<way> (?:later|earlier|sooner|early)\b)?",
    re.IGNORECASE,
)
"""By how much something is moved."""
_WAY: Final = re.compile(r"\b(?:back|forward|later|earlier|sooner|up)\b", re.IGNORECASE)
_CORRECTS: Final = re.compile(
    r"^\W*(?P<lead>(?:(?:no|nope|oh|oops|sorry|ac+tual+y|wait|hang on|hm+|a+h|ar*gh|er|uh|ok|okay|right|and|but|rather"
    r"|good|grand|i mean|i meant|on second thoughts?)\b\W*)*)"
    rf"(?P<verb>{phrases.POLITE}(?:let us |let's )?(?:rather )?(?:make|do|put|set|have|say)(?: (?:it|that|this))\b"
    r"|(?:it|that|this)(?:'s| is| should be| has to be| must be)\b)?"
    r"(?: ?(?:for|to|at|on|in|be))? *(?P<when>.+)$",
    re.IGNORECASE,
)
"""A message that wants the last event otherwise: "make that 21:00", "no, on Friday"."""
_BETTER: Final = re.compile(
    r"[ ,]+(?:i meant?(?: to say)?|(?:would |will )?(?:suits?|be|works?|is)\b.{0,20}\bbetter\b.*)\W*$", re.IGNORECASE
)
"""Behind what is meant instead."""
TAKES_BACK: Final = re.compile(
    r"\b(?:no|nope|oops|sorry|actually|wait|hang on|rather|i meant?|on second thoughts?)\b", re.IGNORECASE
)
_BEGINS_CLAUSE: Final = rf"(?:^|[,;:.!?()\u2013-]\s*|\b(?:so|and|then|just|pls|you (?:may|can)) ){phrases.POLITE}"
TAKES_OUT: Final = re.compile(
    rf"{_BEGINS_CLAUSE}(?:(?:{_OUT})\b(?=.*\b(?:off|out|away|in the bin|on the head|from (?:the|my))\b)"
    r"|(?:bin|scrap|ditch|lose|drop|axe|kill|trash|toss|chuck|dump|cancel|delete|remove|erase)\b"
    r"|(?:away|out)(?: of .{1,20})? with (?:it|that|this)\b|out (?:it|that) goes)"
    r"|\b(?:can|may|should|must|has to|needs to) (?:all )?(?:go\b(?! to| on| at)|be (?:deleted|removed|cancelled)\b)",
    re.IGNORECASE,
)
"""That an event or a note is to be away, in whatever words: "whip it out of the diary"."""
_ALTERS: Final = re.compile(
    rf"{_BEGINS_CLAUSE}(?:{_ALTER}|let)\b"
    r"|\b(?:instead|is now|(?:moves?|goes) to|can only (?:do|make|come)|needs? another (?:day|time|date))\b"
    r"|\b(?:has|have|needs?) to (?:go|be|start|begin|move)\b"
    r"|\b(?:must|should) (?:go|be (?:moved|at|on|changed|shifted)|start|begin)\b"
    r"|\b(?:begins?|starts?|stays?|remain\w*|same (?:time|hour)|later|earlier)\b",
    re.IGNORECASE,
)
"""That an event is to be at another time."""
_NEEDS_WHEN: Final = re.compile(r"\bneeds? another (?:day|time|date)\b|\bbe (?:moved|shifted)\b", re.IGNORECASE)
_SEPARATOR: Final = re.compile(r"[,;:.!?()]")
_PRONOUN: Final = re.compile(r"\b(?:it|that|this|them)\b", re.IGNORECASE)
_NAMED_NOTE: Final = re.compile(
    r"\b(?:the|my) [\w' ]{3,30}? note\b|\bnotes? (?:about|on|for|with|named|called) [\w' ]{3,30}", re.IGNORECASE
)
_INSTEAD_OF: Final = re.compile(r"\b(?:instead of|rather than|not on|not at)\b.*$", re.IGNORECASE | re.DOTALL)
_RANGE: Final = re.compile(r"\bfrom\b.+\b(?:to|until)\b|\bforward\b", re.IGNORECASE)
"""In a message that may mean two times, or either way."""
_NEAR_HOURS: Final = 3
_NOON: Final = 12
_AND: Final = re.compile(r"\band\b|[&,]", re.IGNORECASE)
_UNTOUCHED: Final = re.compile(
    r"\b(?:(?<!after )all(?!-| hands)|every\w*|each|both|these|those|them|any\w*"
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
    r"^(?:it|ours|mine|(?:this|that|the)(?: (?:one|event|appointment|note))?"
    rf"|(?:the )?(?:{PLACE.pattern})(?: (?:one|event|appointment|note))?)$",
    re.IGNORECASE,
)
"""At a thing that was shown."""
_POINTS_FIRST: Final = re.compile(r"^(it|this|that)(?: (?!note|one|event|app|mail|file)\w+)? ?(?:[,.;]|$)", re.IGNORECASE)
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
    message: str,
    context: str,
    data: PersonalData,
    today: dt.date,
    before: Sequence[Made],
    earlier: Sequence[Made] = (),
) -> list[Call] | str | None:
    """Return the call for the change that ``message`` asks for, or what to ask or say; None if for none.

    ``context`` is said around it; ``before`` has the calls for the message before, ``earlier`` all others.
    """
    read = [*earlier[-_EARLIER:], *before]
    if (corrected := _corrected(message, data, today, before)) is not None:
        return corrected
    asked = _ASKED.search(message)
    found = _asked_for(message, context, data, today, before, read)
    is_sure = asked is not None and not (asked["perhaps_cancel"] or asked["perhaps_move"])
    if (found is None and not is_sure) or (isinstance(found, str) and found.startswith(_UNCLEAR)):
        return _told_of(message, context, data, today, before) or found
    return found


def _asked_for(
    message: str,
    context: str,
    data: PersonalData,
    today: dt.date,
    before: Sequence[Made],
    read: Sequence[Made],
) -> list[Call] | str | None:
    """Return what a message wants that begins with the verb of a change, or has one behind a clause.

    ``read`` has calls whose texts may be about the event that is meant.
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
    what, shift = _shift(_THEN.sub("", what), asked["move"]) if moves else (what, None)
    target, when = _split(what, today) if moves else (what, "")
    target, _, meant = target.partition(I_MEAN)
    target = _TAIL.sub("", target)
    if pointed := _POINTS_FIRST.match(target):
        target = pointed[1]
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
            event = event_spoken_of(read, data, today) or _shown_last(read, data, today) if moves else None
            return _call(event, when, data, today, moves=True, shift=shift) if event else None
        about = _event_said(f"{lead} {context}", (), data, today) if not note else None
        shown = [about] if about else shown
        kind: Any = Note if note else Dated if moves or "event" in target else Thing
        found = _one([each for each in shown if isinstance(each, kind)], f"{target} {meant}", today)
        found = found or (meant and find(meant, "", data, today))
        if isinstance(found, str) and found.startswith(WHICH_ONE):
            found = event_spoken_of(read, data, today) or found
        about = f"{lead} {context}"
        if not found and (phrases.MAIL.search(about) or phrases.FILES.search(about)):
            return None
        if not found and (note or re.search(r"\bnotes?\b", f"{lead} {context}")) and not moves:
            found = _note_that_was_told(f"{lead} {context}", data, today)
        elif not found:
            found = _told(f"{lead} {context}", data, today)
        if not found and not note:
            found = event_spoken_of(read, data, today) or _shown_last(read, data, today)
        found = found or (MEANT_NOTE if note else MEANT_EVENT)
    else:
        found = find(target, meant, data, today)
        if found == MEANT_NOTE:
            found = _note_that_was_told(f"{lead} {context}", data, today) or found
    if not isinstance(found, str):
        return _call(found, when, data, today, moves=moves, shift=shift)
    is_doubtful = asked["perhaps_cancel"] or asked["perhaps_move"] or _AND.search(target)
    return None if is_doubtful and not found.startswith(WHICH_ONE) else found


def _told_of(
    message: str, context: str, data: PersonalData, today: dt.date, before: Sequence[Made]
) -> list[Call] | str | None:
    """Return the change of the one event or note whose title is said, where other words say what is to change."""
    text = f"{context} {message}"
    out, alters = TAKES_OUT.search(message), _ALTERS.search(message)
    cue = out or alters
    if not cue or QUESTION.match(message) or message.endswith("?") or phrases.IF.search(text):
        return None
    begin = cue.end() - len(cue[0].lstrip(" ,;:.!?()\u2013-"))
    clause = f"{_SEPARATOR.split(message[:begin])[-1]}{_SEPARATOR.split(message[begin:])[0]}"
    if is_held_back(_AS_BEFORE.sub(" ", clause)) or _ADDS.match(message) or _UNTOUCHED.search(clause):
        return None
    if out and re.search(r"\bnotes?\b", text, re.IGNORECASE):
        said = title_words(text)
        notes: Sequence[Thing] = [each for each in data.notes.all() if _is_said(each.title, said)]
        if not notes and (named := _NAMED_NOTE.search(text)):
            note = _note(named[0], "", data, today)
            notes = [] if isinstance(note, str) else [note]
        return _call(notes[0], "", data, today, moves=False) if len(notes) == 1 else None
    days = _days_in(text, today)
    event = _event_said(text, days, data, today)
    if event is None and _PRONOUN.search(message[cue.start() :]):
        shown = _shown(before, data, today)
        if len(shown) == 1 and isinstance(shown[0], Note):
            return _call(shown[0], "", data, today, moves=False) if out else None
        event = shown[0] if len(shown) == 1 and isinstance(shown[0], Dated) else None
    if event is None:
        return None
    if out and not (alters and alters.start() > out.start()):
        if days and event.date not in days:
            return None
        return _call(event, "", data, today, moves=False)
    rest, shift = _shift(_INSTEAD_OF.sub("", text), message[cue.start() : cue.end()].strip(" ,.;:"))
    new_days = [day for day in _days_in(_INSTEAD_OF.sub("", text), today) if day != event.date]
    times = [time for time in _times_in(rest) if f"{parse_time(time):%H:%M}" != event.time]
    if not (shift or new_days or times):
        return TO_WHEN if _NEEDS_WHEN.search(message) else None
    if (len(new_days) > 1 and not TAKES_BACK.search(text)) or _RANGE.search(text):
        return None
    when = f"{new_days[-1]}" if new_days and not shift else ""
    when += f" at {times[-1]}" if times and not shift else ""
    return _call(event, when, data, today, moves=True, shift=shift)


def event_spoken_of(before: Sequence[Made], data: PersonalData, today: dt.date) -> Dated | None:
    """Return the one event whose title is in the texts that were read for the message before."""
    texts = " ".join(call.result for call in before if call.has_text)
    return _event_said(texts, (), data, today) if texts else None


def _shown_last(calls: Sequence[Made], data: PersonalData, today: dt.date) -> Dated | None:
    """Return the event that was shown or written last, if it was alone."""
    shown = (_shown([call], data, today) for call in reversed(calls))
    events = next(filter(None, ([each for each in one if isinstance(each, Dated)] for one in shown)), [])
    return events[0] if len(events) == 1 else None


def _days_in(text: str, today: dt.date) -> list[dt.date]:
    """Return the days that ``text`` names, in order."""
    days: list[dt.date] = []
    while day := find_days(text, today):
        first, last = parse_days(day, today)
        days += [first] if first == last else []
        text = text.partition(day)[2]
    return days


def _times_in(text: str) -> list[str]:
    times: list[str] = []
    while time := find_time(text):
        times.append(said_time(time))
        text = text[time.end() :]
    return times


def _event_said(text: str, days: Sequence[dt.date], data: PersonalData, today: dt.date) -> Dated | None:
    """Return the one event whose title is said, or of which a word is said together with its day."""
    said = title_words(text)
    near = data.calendar.find(today, today + dt.timedelta(days=_DAYS_AHEAD))
    found = [each for each in near if _is_said(each.title, said)]
    found = found or [each for each in near if each.date in days and _said_of(each.title, said)]
    if len(found) > 1:
        found = [each for each in found if each.date in days]
    return found[0] if len(found) == 1 else None


def _said_of(title: str, said: Sequence[str]) -> list[str]:
    words = [word for word in _words(title) if word not in _KINDS_OF_EVENT]
    return [word for word in words if _is_like_one(word, said)]


def _is_said(title: str, said: Sequence[str]) -> bool:
    """Return whether all of a short title was said, or most of a longer one."""
    return 3 * len(_said_of(title, said)) > 2 * len(_words(title)) > 0


def _corrected(
    message: str, data: PersonalData, today: dt.date, before: Sequence[Made]
) -> list[Call] | str | None:
    """Return the call that moves the event written last to when ``message`` says; None if it says none."""
    written = [call for call in before if call.name in ("add_event", "move_event") and not call.failed]
    found = _CORRECTS.match(message)
    if not found or (message.endswith("?") and not found["verb"]):
        return None
    shown: Sequence[Thing] = _shown(written, data, today) if len(written) == 1 else []
    if not shown and found["verb"] and not written:
        spoken = event_spoken_of(before, data, today)
        shown = [spoken] if spoken else [each for each in _shown(before, data, today) if isinstance(each, Dated)]
    when = _BETTER.sub("", found["when"])
    said, shift = _shift(_AS_BEFORE.sub(" ", _TAIL.sub("", when)), "")
    takes_back = TAKES_BACK.search(found["lead"]) or when != found["when"] or "instead" in when.casefold()
    if not (found["verb"] or takes_back or (shift and not said)):
        return None
    rest, day, clock = read_event(_BARE_HOUR.sub(" at ", said), today)
    if rest or not (day or clock or shift) or len(shown) != 1:
        return None
    return _call(shown[0], said, data, today, moves=True, shift=shift)


def _shift(what: str, verb: str) -> tuple[str, dt.timedelta | None]:
    """Return what is to be moved, and by how much if that is said: "by an hour", "two days later"."""
    for found in _AMOUNT.finditer(what):
        rest = f"{what[: found.start()]} {what[found.end() :]}"
        way = (found["way"] or " ".join(_WAY.findall(rest))).casefold()
        if not (found["by"] or way):
            continue
        count, unit = found["count"].casefold(), found["unit"].casefold()
        number = float(count) if count.isdecimal() else _COUNTS[count]
        number += 0.5 if found["more"] else 0
        names = {"min": "minutes", "h": "hours", "hour": "hours", "day": "days", "week": "weeks"}
        by = dt.timedelta(**{names[unit]: number})
        if "forward" in way and not verb.casefold().startswith(("bring", "pull")):
            return rest, None  # which people mean either way
        is_earlier = any(word in way for word in ("earl", "sooner", "forward", "up"))
        return " ".join(_WAY.sub(" ", rest).split()), -by if is_earlier else by
    return what, None


def _call(
    thing: Thing,
    when: str,
    data: PersonalData,
    today: dt.date,
    *,
    moves: bool,
    shift: dt.timedelta | None = None,
) -> list[Call] | str:
    follows, when = _FOLLOWS.search(when), _FOLLOWS.sub(" ", when)
    if isinstance(thing, Note):
        return [("delete_note", {"id": thing.id, "title": thing.title})]
    event = {"title": thing.title, "date": f"{thing.date}"}
    try:
        data.calendar.single(**event)
    except ToolError as error:
        return f"I cannot do that: {error}."
    if not moves:
        return [("delete_event", event)]
    rest, day, clock = read_event(_BARE_HOUR.sub(" at ", when), today)
    if rest or not (day or clock or shift) or (not day and find_days(when, today)):
        return TO_WHEN
    date = parse_date(day, thing.date + dt.timedelta(days=1) if follows else today) if day else thing.date
    time = thing.time.replace(ALL_DAY, "")
    if clock:
        time = f"{_near(parse_time(clock), clock, time):%H:%M}"
    if shift and time:
        moved = dt.datetime.combine(date, parse_time(time)) + shift
        date, time = moved.date(), f"{moved:%H:%M}"
    elif shift and not shift % dt.timedelta(days=1):
        date += shift
    elif shift:
        return TO_WHEN  # it lasts all day
    return [("move_event", event | {"new_date": f"{date}", "new_time": time})]


def _near(time: dt.time, said: str, old: str) -> dt.time:
    """Return ``time``, in the other half of the day if only its hour was ``said`` and ``old`` is near to that.

    Dinner at 19:00 that is moved "to 8" is at 20:00.
    """
    if not (old and said.strip().isdecimal() and 0 < time.hour < _NOON):
        return time
    was, other = parse_time(old), time.replace(hour=time.hour + _NOON)
    is_near = abs(other.hour - was.hour) <= _NEAR_HOURS < abs(time.hour - was.hour)
    return other if is_near else time


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
    return " ".join([f"{_NONE}event", *words, f"{where}. Nothing was changed."])


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
    return _one(found, meant, today) or f"{_NONE}note about {' '.join(words)}. Nothing was changed."


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
