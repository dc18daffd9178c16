"""Events that a message wants cancelled or moved, and notes that it wants deleted; or what to ask instead.

What is meant is found in the calendar and among the notes by its words. Where several may be meant, or none,
or the message only thinks about it, nothing changes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from . import phrases
from .calendar import ALL_DAY, Dated, title_words
from .data import PersonalData
from .dates import BARE_DAY_OF_MONTH, parse_date, parse_time
from .errors import ToolError
from .meant import (
    MEANT_EVENT,
    MEANT_NOTE,
    NAMES_NOTE,
    NOTHING_FOUND,
    WHICH_ONE,
    Thing,
    event_said,
    event_shown_last,
    event_spoken_of,
    find_event,
    find_note,
    named_of,
    note_told_of,
    one_of,
    shown_by,
    title_is_said,
)
from .notes import Note
from .references import PLACE
from .results import Made
from .when import days_in, is_dated, single_days_in, times_in
from .writes import QUESTION, Call, is_headed, is_held_back, read_event

CHANGES: Final = frozenset({"delete_note", "delete_event", "move_event"})
"""The tools."""
TO_WHEN: Final = "To when?"
I_MEAN: Final = ", I mean "
"""In a message, before the answer to a question which one is meant."""
NOT_CHANGED: Final = "Nothing was changed. Say what to change, such as: move the dentist to Friday at 10:00."
OFF: Final = 'Nothing was changed. To take it out of your calendar, say: cancel "{}".'
DEPENDS: Final = "Nothing was changed, as it depends on something. Say so if it is to be."
UNCLEAR: Final = (NOTHING_FOUND, TO_WHEN, MEANT_EVENT, MEANT_NOTE)
"""How an answer begins where it is not clear what is to be changed, or to when."""
_EARLIER: Final = 2
"""Calls before those for the last message, whose texts may be meant."""
_CALENDAR: Final = rf"(?:my|the|our) {phrases.CALENDARS}"
_CANCEL: Final = (
    r"cancel(?:l?ing)?|cancl|del|delet(?:e|ing)|throw(?:ing)? (?:away|out)|remov(?:e|ing)|eras(?:e|ing)"
    r"|get(?:ting)? rid of|call(?:ing)?(?: off|(?= .+ off\b))"
)
_MOVE: Final = r"mov(?:e|ing)|re-?sched(?:ul(?:e|ing))?|postpon(?:e|ing)"
_PERHAPS_CANCEL: Final = (
    rf"scrap|scratch|scrub|trash|toss|chuck|ditch|axe|bin|kill|dump|drop(?:ping)?(?! (?:off|by|in|me|us|him"
    rf"|her)\b)|tak(?:e|ing)(?= .+ (?:off|out of|from) {_CALENDAR})"
)
"""Words that also mean something else: only what has the title of an event is one."""
_PERHAPS_MOVE: Final = (
    r"push(?:ing)?|shift(?:ing)?|swap|chang(?:e|ing)|put (?:off|back)|delay|bring|bump|nudge|pull|scoot|slide"
    r"|shove|shunt|update|put(?= (?:it|ours|mine|that|them|(?:the|my) [\w' ]{2,30})(?: back)? to\b)"
)
BEGINS: Final = phrases.any_case(
    rf",? (?:and then|and also|and|then) (?={phrases.POLITE}(?:{_CANCEL}|{_MOVE}) (?:the|my|our|that|it)\b)"
)
"""What stands between another request and one for a change."""
_ASKED: Final = phrases.any_case(
    r"(?s)(?:^\W*(?:(?:ok|okay|right|ac+tual+y|well|ugh|argh|hm+|ah|grand|lovely|good|fine) )*"
    r"|[,;:.!?()\u2013-] *|\bso )(?:(?:i|we)(?:'ve| have)?(?: got)? (?:(?:have|need|want) to|must|to) )?"
    rf"{phrases.POLITE}(?P<no>(?:i (?:don'?t|do not) want (?:you )?to|i(?:'d| would) rather (?:you )?not"
    r"|don'?t|do not|never|no need to|not) (?:\w+ )?)?(?:help me )?"
    rf"(?:(?:{_CANCEL}|(?P<perhaps_cancel>{_PERHAPS_CANCEL}))"
    rf"|(?P<move>{_MOVE}|(?P<perhaps_move>{_PERHAPS_MOVE}))) (?!(?:to|in|into|out|on|away)\b)(?P<what>.+)$"
)
_ADDS: Final = phrases.any_case(r"^\W*(?:add|put|enter|schedule|create|write)\b")
_OUT: Final = r"take|whip|knock|strike|get|pull|lift|cut|throw|toss|chuck|wipe|cross|clear|rub"
"""Verbs for what is cancelled, with "out", "off" and the like behind them."""
_ALTER: Final = rf"{_MOVE}|{_PERHAPS_MOVE}|adapt|adjust|correct|fix|alter"
POINTS_BACK: Final = phrases.any_case(
    rf"^\W*(?:{phrases.POLITE}(?:{_CANCEL}|{_PERHAPS_CANCEL}|{_ALTER}|{_OUT}|taking|call(?:ing)?)"
    r" (?:it|that|this|them)\b|(?:away|out)(?: of .{1,20})? with (?:it|that|this)\b"
    rf"|{phrases.POLITE}(?:put|add|enter|stick|pop|save) (?:it|that|this)\b(?! (?:as|in|to|into) (?:an?"
    rf"|my) note)|(?:please|pls) (?:change|cancel|delete|move)\W*$)"
)
"""How a request begins for the change of something that is told before it: "Delete it please."."""
WITHDRAWN: Final = phrases.any_case(
    r"\b(?:never ?mind|(?<!i )(?<!to )forget it|no wait"
    r"|ac+tual+y,? (?:don'?t|do not|no|not)(?=\W*$))(?!\w)(?!.*\b(?:cancel|delete|remove|move)\b)"
    r"(?!,? (?:put|make) (?:it|that)\b)"
)
_DECLINED: Final = phrases.any_case(rf"(?:{I_MEAN}|\bto )(?:no|none|neither|nothing|stop)\b")
_AS_BEFORE: Final = phrases.any_case(
    r"\b(?:instead|rather|(?:at )?(?:the )?same (?:time|day|hour)(?: as (?:it was|before))?"
    r"|(?:the )?(?:time|hour) (?:stays?|remain\w*)(?: (?:the same|as it is))?)\b"
)
_NO_OBJECT: Final = phrases.any_case(r"(?:it|that|this|them|from|off|there)\b")
_TAIL: Final = phrases.any_case(
    rf"(?:[ ,]+(?:(?:to|for) (?:some other|another) (?:day|time|date)|please|pls|plz|thanks|thank you|thx"
    rf"|again|for me|will you|would you|can you|ok(?:ay)?|then|now|by .*|(?:off|out of|from|in"
    rf"|on)(?: {_CALENDAR})?))+\W*$|\W+$"
)
_FOLLOWS: Final = phrases.any_case(r"\b(?:(?:directly|right|just) after|(?:which|that) follows|following)\b")
"""Said of a day that is to be counted from that of the event."""
_THEN: Final = phrases.any_case(r"(?:[ ,]+(?:then|so|please|pls|plz|thanks|thx|again|for me))+\W*$")
_TO: Final = phrases.any_case(r"\b(?:to|until|till|for)\b")
_BARE_HOUR: Final = phrases.any_case(
    r"^ *(?=(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?: (?:on|tomorrow"
    r"|today)\b|\W*$))"
)
_COUNTS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30, "half an": 0.5, "half a": 0.5,
    "a quarter of an": 0.25,
}  # fmt: skip
_AMOUNT: Final = phrases.any_case(
    rf"(?P<by>\bby )?\b(?P<count>{'|'.join(sorted(_COUNTS, key=len, reverse=True))}|\d{{1,3}}) ?(?P<unit>min"
    rf"|h|hour|day|week)(?:ute)?s?\b(?P<more> and a half)?(?P<way> (?:later|earlier|sooner|early)\b)?"
)
"""By how much something is moved."""
_WAY: Final = phrases.any_case(r"\b(?:back|forward|later|earlier|sooner|up)\b")
_CORRECTS: Final = phrases.any_case(
    rf"^\W*(?P<lead>(?:(?:{phrases.CORRECTION}|{phrases.FILLER}|and|but|good|grand)\b\W*)*)"
    rf"(?P<verb>{phrases.POLITE}(?:let us |let's )?(?:rather )?(?:make|do|put|set|have|say)(?: (?:it|that"
    rf"|this))\b|(?:it|that|this)(?:'s| is| should be| has to be| must be)\b)?(?: ?(?:for|to|at|on|in"
    rf"|be))? *(?P<when>.+)$"
)
"""A message that wants the last event otherwise: "make that 21:00", "no, on Friday"."""
_BETTER: Final = phrases.any_case(
    r"[ ,]+(?:i meant?(?: to say)?|(?:would |will )?(?:suits?|be|works?|is)\b.{0,20}\bbetter\b.*)\W*$"
)
"""Behind what is meant instead."""
_CORRECTING: Final = phrases.any_case(rf"\b{phrases.CORRECTION}\b")
_BEGINS_CLAUSE: Final = (
    rf"(?:^|[,;:.!?()\u2013-]\s*|\b(?:so|and|then|just|pls|you (?:may|can)) ){phrases.POLITE}"
)
TAKES_OUT: Final = phrases.any_case(
    rf"{_BEGINS_CLAUSE}(?:(?:{_OUT})\b(?=.*\b(?:off|out|away|in the bin|on the head|from (?:the|my))\b)"
    rf"|(?:{_CANCEL}|{_PERHAPS_CANCEL}|lose)\b"
    r"|(?:away|out)(?: of .{1,20})? with (?:it|that|this)\b|out (?:it|that) goes)|\b(?:take|whip) (?:it"
    r"|that) (?:out|off)\b"
    rf"|(?:^|[,;.-] *)(?:off|out of) {_CALENDAR}|\b(?:can|may|should|must|has to|needs to) (?:all )?(?:come "
    rf"(?:off|out)\b|go\b(?! to| on| at)|be (?:deleted|removed|cancelled)\b)"
)
"""That an event or a note is to be away, in whatever words: "whip it out of the diary"."""
_ALTERS: Final = phrases.any_case(
    rf"{_BEGINS_CLAUSE}(?:{_ALTER}|let)\b|\b{phrases.IS_MOVED}\b|\b(?:instead"
    r"|be (?:moved|shifted|changed) (?:to|by|back)|is now"
    r"|not (?:on )?\w+, .{3,12} now|(?:moves?|goes) to|can only (?:do|make|come)|needs? another (?:day|time"
    r"|date))\b|\b(?:has|have|needs?) to (?:go|be|start|begin|move|shift)\b|\b(?:is|are|leaves?|begins?"
    r"|starts?) .{0,30}\bnow\b|\bnow (?=on |at )|\b(?:must|should) (?:go|be (?:moved|at|on|changed|shifted)"
    r"|start|begin)\b|\b(?:begins?|starts?|stays?|remain\w*|same (?:time|hour)|later|earlier)\b"
)
"""That an event is to be at another time."""
_IS_MOVED: Final = phrases.any_case(
    rf"^\W*(?:{phrases.FILLER}\W+)*(?P<what>[^,;:.?]{{2,60}}?) (?P<verb>{phrases.IS_MOVED})\b(?P<when>[^?]*)$"
)
"""A message that tells of an event that it was moved: "the vet has moved to the 9th at 10"."""
_NEEDS_WHEN: Final = phrases.any_case(
    r"\bneeds? another (?:day|time|date)\b|\bbe (?:moved|shifted)\b|\b(?:has|have|needs?) to (?:move|shift)\b"
)
_POLITELY: Final = phrases.any_case(
    r"\b(?:can|could|would|will) (?:you|u)\b|^\W*(?:can|could) (?!i\b|we\b).{3,50} (?:go|move"
    r"|be moved) (?:to|on)\b"
)
_SEPARATOR: Final = re.compile(r"[,;:.!?()]")
_PRONOUN: Final = phrases.any_case(r"\b(?:it|that|this|them)\b")
_ANY_NOTE: Final = phrases.any_case(r"^(?:(?:one|a|some) of (?:my|me|the) notes|(?:a|one) note)$")
_ONE_OF_NOTES: Final = phrases.any_case(r"^\W*(?:one|a) of (?:my|me) notes\b")
_NAMED_NOTE: Final = phrases.any_case(
    r"\b(?:the|my) [\w' ]{3,30}? note\b|\bnotes? (?:about|on|for|with|named|called) [\w' ]{3,30}"
)
_INSTEAD_OF: Final = phrases.any_case(
    r"\b(?:instead of|rather than|not (?:on|at|\d+))\b[^,;]*?(?=[,;]|[.!?](?:\s|$)|$)"
)
_RANGE: Final = phrases.any_case(r"\bfrom\b.+\b(?:to|until)\b|\bforward\b")
"""In a message that may mean two times, or either way."""
_OF_EITHER_HALF: Final = phrases.any_case(
    r"[1-9]\d?(?:[:.]\d\d)?|[a-z\d -]+(?<!morning)(?<!afternoon)(?<!arvo)(?<!evening)"
)
"""A time of day without its half."""
_NEAR_HOURS: Final = 3
_NOON: Final = 12
_AND: Final = phrases.any_case(r"\band\b|[&,]")
_UNTOUCHED: Final = phrases.any_case(
    r"\b(?:(?<!after )all(?!-| hands)|every\w*|each|both|these|those|any\w*|(?:two|three|several"
    r"|\d+)(?= (?!days|hours|minutes|weeks)\w+s\b)|events|appointments|meetings|(?<!from my )(?<!in my )"
    r"(?<!among my )(?<!of my )(?<!of me )notes(?! *$)|entries|things|m\d{1,6})\b|^(?:my |the )?notes\b"
    rf"|{phrases.MAIL.pattern}|{phrases.FILES.pattern}"
)
"""What stays: several things at once, mail and files."""
_PART: Final = phrases.any_case(r"\b(?:from|off|out of|line|item|word|part)\b(.*)")
"""Of a note, or of those who come to an event: that cannot be taken out."""
_POINTS: Final = phrases.any_case(
    r"^(?:it|them|ours|mine|(?:this|that|the)(?: (?:one|event|appointment|note))?"
    rf"|(?:the )?(?:{PLACE.pattern})(?: (?:one|event|appointment|note))?)$"
)
"""At a thing that was shown."""
_POINTS_FIRST: Final = phrases.any_case(
    r"^(it|this|that|them)(?: (?!note|one|event|app|mail|file)\w+)? ?(?:[,.;]|$)"
)


@dataclass(frozen=True)
class Changes:
    """Reads changes from messages about ``data``, where ``before`` has the calls for the message before."""

    data: PersonalData
    today: dt.date
    before: Sequence[Made]
    earlier: Sequence[Made] = ()
    """All calls before those."""
    said_before: str = ""
    """The user's message before."""

    def wanted(self, message: str, context: str = "") -> list[Call] | str | None:
        """Return the call for the change that ``message`` asks for, or what to ask or say; None if for none.

        ``context`` is said around it.
        """
        if (corrected := self._corrected(message)) is not None:
            return corrected
        found = self._asked_for(message, context) or self._said_to_be_moved(message) or self._off(message)
        if (found is None and not _surely_asked(message)) or (
            isinstance(found, str) and found.startswith(UNCLEAR)
        ):
            return self._told_of(message, context) or found
        return found

    def wanted_in_all(self, message: str) -> list[Call] | str | None:
        """Return the change that the sentences of ``message`` only together ask for."""
        asked = _surely_asked(message)
        if asked and not _NO_OBJECT.match(asked["what"]):
            return None  # its own sentence says what it is about
        return self._told_of(message)

    @property
    def _read(self) -> Sequence[Made]:
        """Calls whose texts may be about the event that is meant."""
        return [*self.earlier[-_EARLIER:], *self.before]

    def _asked_for(self, message: str, context: str) -> list[Call] | str | None:
        """Return what a message wants that begins with the verb of a change, or has one behind a clause."""
        asked = _ASKED.search(message)
        lead = message[: asked.start()].strip() if asked else ""
        if not asked or QUESTION.match(message) or is_headed(message) or _ADDS.match(lead):
            return None
        what = phrases.REASON.sub("", " ".join(asked["what"].split()))
        if asked["no"] or WITHDRAWN.search(message) or _DECLINED.search(message):
            return NOT_CHANGED
        if phrases.IF.search(lead) or is_held_back(_AS_BEFORE.sub(" ", what)):
            return DEPENDS
        moves = asked["move"] is not None
        what, shift = _shift(_THEN.sub("", what), asked["move"]) if moves else (what, None)
        target, when = _split(what, self.today) if moves else (what, "")
        target, _, meant = target.partition(I_MEAN)
        target = _TAIL.sub("", target)
        if pointed := _POINTS_FIRST.match(target):
            target = pointed[1]
        note = NAMES_NOTE.match(target)
        named = (note["name"] or "") if note else target
        part = _PART.search(named)
        if part and not (days_in(part[1], self.today) or times_in(part[1])):
            return None
        if not target or (moves and note) or _UNTOUCHED.search(named):
            return None
        find = find_note if note else find_event
        if _ANY_NOTE.match(target):
            return MEANT_NOTE
        about = f"{lead} {context}".strip()
        if _POINTS.match(target):
            pointed_at = self._pointed_at(f"{target} {meant}", about, note=bool(note), moves=moves)
            if pointed_at is None:
                return None
            found = (
                pointed_at
                or (meant and find(meant, "", self.data, self.today))
                or (MEANT_NOTE if note else MEANT_EVENT)
            )
        else:
            found = find(target, meant, self.data, self.today)
            if found == MEANT_NOTE:
                found = note_told_of(about, self.data, self.today) or found
        if not isinstance(found, str):
            return self._call(found, when, moves=moves, shift=shift)
        is_doubtful = asked["perhaps_cancel"] or asked["perhaps_move"] or _AND.search(target)
        return None if is_doubtful and not found.startswith(WHICH_ONE) else found

    def _said_to_be_moved(self, message: str) -> list[Call] | str | None:
        """Return the call for the event of which the message says that it is at another time now."""
        said = _IS_MOVED.match(message)
        if not said or QUESTION.match(message) or is_held_back(message) or _PRONOUN.fullmatch(said["what"]):
            return None
        rest, shift = _shift(said["when"], said["verb"])
        when = _split(rest, self.today)[1] or rest.strip(" .!")
        is_timed = shift or is_dated(_BARE_HOUR.sub(" at ", when), self.today)
        found = find_event(said["what"], "", self.data, self.today)
        if isinstance(found, str):
            return found if is_timed else None
        if not {*title_words(found.title)} & {*title_words(said["what"])}:  # it is only spelt alike
            return f"{NOTHING_FOUND}event {said['what']}. Nothing was changed." if is_timed else None
        return self._call(found, when if is_timed else "", moves=True, shift=shift)

    def _off(self, message: str) -> str | None:
        """Return what to say where an event is said to be off; nobody has asked to take it out."""
        off = phrases.IS_OFF.match(message)
        if not off or QUESTION.match(message):
            return None
        event = find_event(off["what"], "", self.data, self.today)
        return None if isinstance(event, str) else OFF.format(event.title)

    def _pointed_at(self, target: str, about: str, *, note: bool, moves: bool) -> Thing | str | None:
        """Return what a pronoun or an ordinal means, or the question which one; nothing where it is unclear.

        None if it means a mail or a file. ``about`` is said around it.
        """
        shown = shown_by(self.before, self.data, self.today)
        others = any(call.name.endswith(("_mail", "_file", "_files")) for call in self.before)
        if (
            phrases.MAIL.search(about)
            or phrases.FILES.search(about)
            or (others and not (shown or about or moves))
        ):
            return None
        if event := None if note else event_said(about, (), self.data, self.today):
            return event
        kind: Any = Note if note else Dated if moves or "event" in target else Thing
        found = self._one_of([each for each in shown if isinstance(each, kind)], target)
        if not found and not moves and (note or re.search(r"\bnotes?\b", about)):
            found = note_told_of(about, self.data, self.today)
        if note or (found and not isinstance(found, str)):
            return found
        spoken_of = event_spoken_of(self._read, self.data, self.today) or (
            None if found else event_shown_last(self._read, self.data, self.today)
        )
        return spoken_of or found or (None if others and not about else "")

    def _told_of(self, message: str, context: str = "") -> list[Call] | str | None:
        """Return the change of the one event or note whose title is said, whatever words ask for it."""
        text = f"{context} {message}"
        out, alters = TAKES_OUT.search(message), _ALTERS.search(message)
        cue = out or alters
        asks = message.endswith("?") and not _POLITELY.search(message)
        if not cue or QUESTION.match(message) or asks or phrases.IF.search(text):
            return None
        begin = cue.end() - len(cue[0].lstrip(" ,;:.!?()\u2013-"))
        clause = f"{_SEPARATOR.split(message[:begin])[-1]}{_SEPARATOR.split(message[begin:])[0]}"
        if (
            is_held_back(_INSTEAD_OF.sub(" ", _AS_BEFORE.sub(" ", clause)))
            or _ADDS.match(message)
            or _UNTOUCHED.search(clause)
        ):
            return None
        if out and re.search(r"\bnotes?\b", text, re.IGNORECASE):
            said = title_words(text)
            notes: Sequence[Thing] = [
                each for each in self.data.notes.all() if title_is_said(each.title, said)
            ]
            if not notes and (named := _NAMED_NOTE.search(text)):
                note = find_note(named[0], "", self.data, self.today)
                notes = [] if isinstance(note, str) else [note]
            if not notes and _ONE_OF_NOTES.search(message):
                return MEANT_NOTE
            return self._call(notes[0], moves=False) if len(notes) == 1 else None
        days = [day.first for day in single_days_in(text, self.today)]
        event = event_said(text, days, self.data, self.today)
        if event is None and _PRONOUN.search(message[cue.start() :]):
            shown = shown_by(self.before, self.data, self.today)
            if len(shown) == 1 and isinstance(shown[0], Note):
                return self._call(shown[0], moves=False) if out else None
            event = shown[0] if len(shown) == 1 and isinstance(shown[0], Dated) else None
        if event is None:
            return None
        if out and not (alters and alters.start() > out.start()):
            if days and event.date not in days:
                return None
            return self._call(event, moves=False)
        rest, shift = _shift(_INSTEAD_OF.sub("", text), message[cue.start() : cue.end()].strip(" ,.;:"))
        meant = single_days_in(_INSTEAD_OF.sub("", text), self.today)
        new_days = [day.first for day in meant if day.first != event.date]
        for day in meant:
            if numbered := BARE_DAY_OF_MONTH.fullmatch(day.said):
                new_days = [_near_month(int(numbered["day"]), event.date, self.today)]
        times = [time.said for time in times_in(rest) if f"{time.time:%H:%M}" != event.time]
        if not (shift or new_days or times):
            return TO_WHEN if _NEEDS_WHEN.search(message) else None
        if (len(new_days) > 1 and not _CORRECTING.search(text)) or _RANGE.search(text):
            return None
        when = f"{new_days[-1]}" if new_days and not shift else ""
        when += f" at {times[-1]}" if times and not shift else ""
        return self._call(event, when, moves=True, shift=shift)

    def _corrected(self, message: str) -> list[Call] | str | None:
        """Return the call that moves the event written last to when ``message`` says; None if to none."""
        recent = self._read if I_MEAN in message else self.before  # the answer to which of them comes later
        written = [call for call in recent if call.name in ("add_event", "move_event") and not call.failed]
        found = _CORRECTS.match(message)
        if not found or (message.endswith("?") and not found["verb"]):
            return None
        shown: Sequence[Thing] = shown_by(written, self.data, self.today)
        if not shown and found["verb"] and not written:
            spoken = event_spoken_of(self.before, self.data, self.today)
            shown = (
                [spoken]
                if spoken
                else [
                    each for each in shown_by(self.before, self.data, self.today) if isinstance(each, Dated)
                ]
            )
        said_when, _, meant = found["when"].partition(I_MEAN)
        whole = _BETTER.sub("", said_when)
        takes_back = _CORRECTING.search(found["lead"]) or whole != said_when or "instead" in whole.casefold()
        for when in dict.fromkeys((whole, whole.partition(",")[0])):  # behind a comma stands why
            said, shift = _shift(_AS_BEFORE.sub(" ", _TAIL.sub("", when)), "")
            rest, day, clock = read_event(_BARE_HOUR.sub(" at ", said), self.today)
            corrects = found["verb"] or takes_back or (shift and not said)
            if corrects and shown and not rest and (day or clock or shift):
                named = [each for each in shown if meant and title_is_said(each.title, title_words(meant))]
                thing = self._one_of(named or shown, meant)
                return thing if isinstance(thing, str) else self._call(thing, said, moves=True, shift=shift)
        return None

    def _one_of(self, shown: Sequence[Thing], said: str) -> Thing | str:
        """Return the thing of those ``shown`` that is meant, maybe the one that the message before named."""
        found = one_of(shown, said, self.today)
        named = named_of(shown, self.said_before)
        return named[0] if isinstance(found, str) and len(named) == 1 else found

    def _call(
        self, thing: Thing, when: str = "", *, moves: bool, shift: dt.timedelta | None = None
    ) -> list[Call] | str:
        follows, when = _FOLLOWS.search(when), _FOLLOWS.sub(" ", when)
        if isinstance(thing, Note):
            return [("delete_note", {"id": thing.id, "title": thing.title})]
        event = {"title": thing.title, "date": f"{thing.date}"}
        try:
            self.data.calendar.single(**event)
        except ToolError as error:
            return f"I cannot do that: {error}."
        if not moves:
            return [("delete_event", event)]
        rest, day, clock = read_event(_BARE_HOUR.sub(" at ", when), self.today)
        if rest or not (day or clock or shift) or (not day and days_in(when, self.today)):
            return TO_WHEN
        date = thing.date
        if day:
            date = parse_date(day, thing.date + dt.timedelta(days=1) if follows else self.today)
            if numbered := BARE_DAY_OF_MONTH.fullmatch(day):
                date = _near_month(int(numbered["day"]), thing.date, self.today)
            if date == self.today < thing.date and day.casefold().endswith(f"{date:%A}".casefold()):
                date += dt.timedelta(days=7)  # who means today says so
        if date < self.today:
            return TO_WHEN
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


def _surely_asked(message: str) -> re.Match[str] | None:
    """Return the request in ``message`` whose verb means a change and nothing else."""
    asked = _ASKED.search(message)
    return None if asked is None or asked["perhaps_cancel"] or asked["perhaps_move"] else asked


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


def _near_month(number: int, event: dt.date, today: dt.date) -> dt.date:
    """Return the day of that ``number`` in the month of the ``event``, or the next one if it is over."""
    with suppress(ValueError):  # a month without it
        if (day := event.replace(day=number)) >= today:
            return day
    return parse_date(f"{number}th", max(event, today))


def _near(time: dt.time, said: str, old: str) -> dt.time:
    """Return ``time``; in the other half of the day if only its hour was ``said`` and ``old`` is near to it.

    Dinner at 19:00 that is moved "to 8" is at 20:00.
    """
    if not (old and _OF_EITHER_HALF.fullmatch(said.strip()) and 0 < time.hour < _NOON):
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
        if days_in(rest, today) or times_in(rest):
            if not when:
                when, begin = rest, marker.start()
            elif marker[0].casefold() != "for":  # from one time to another
                return what[: marker.start()], ""
    when, mean, meant = when.partition(I_MEAN)
    return what[:begin] + mean + meant, _AS_BEFORE.sub(" ", when)
