"""Events that a message asks for, in its own words; or what to ask or decline instead.

A model that is to fill in a write invents what is missing. What is written here was said.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from .dates import parse_time
from .phrases import CALENDARS, CORRECTION, IS_MOVED, POLITE, PREPOSED, QUESTION_WORDS, REASON, any_case
from .when import Days, Time, days_in, first_day, is_dated, said_when, single_days_in, times_in, without

Call: TypeAlias = tuple[str, Mapping[str, Any]]

WHICH_EVENT: Final = "What is the event?"
WHICH_DAY: Final = "On which day?"
WHICH_TIME: Final = "At what time?"
NOT_ASKED: Final = "Nothing was written for this. Say what to write, such as: add lunch on Friday at 12:00."
DEPENDS: Final = "Nothing was added, as it depends on something. Say so if it is to be."
ONE_HOUR: Final = (
    "I cannot do that: I add single events of one hour only, in the time of this machine. Nothing was added. "
    "Say the day and the time at which it begins."
)
_ADD: Final = (
    r"(?:(?:put|pencil|book|pop|stick) me (?:down|in) for|(?:add|enter|stick|pencil|block|insert|register"
    r"|slot)(?:l?ing)?|put(?:ting)?|pop(?:ping)?|plan(?:ning)?|set(?:ting)?(?: up)?|(?:schedul|creat|mak)(?:e"
    r"|ing)|get(?:ting)?|squeez(?:e|ing)|reserv(?:e|ing)(?=.* (?:agenda|calendar|diary)\b)|(?:chuck|throw"
    r"|bung|whack|book(?= (?:it|that|this|me|us|an?|the|my)\b))(?=.* (?:in|into|on)\b))"
)
_CALENDAR: Final = rf"(?:(?:in|into|to|on|onto|for) )?(?:(?:my|the|our) )?{CALENDARS}"
_IT: Final = r"(?:its?|that|this|them|those|him|her)"
_END: Final = (
    r"(?=(?:\W*(?:before i forget(?: it)?|for me|thanks?|thx|please|pleas|pl[sz]))*(?:[?.!]* (?:on"
    r"|at) [\w:., ]{1,40})?(?:, (?:i|my|we|our|he|she|they|so|as|because|before)\b[^.?!,]*)?\W*$)"
)
"""Of a request, behind which the day and the time may stand that were asked for."""
_ADDING: Final = any_case(
    rf"(?:^|[,;:.] *|\bso )(?:{POLITE}{_ADD}|(?:can|could) (?:i|we) (?:please )?(?:get|have|add|put))"
    r"(?: in| down)? (?!note\b|a note)"
)
_SURELY_EVENT: Final = any_case(
    rf"\W*{POLITE}(?:pencil|schedul|block (?:off|out)|\w+ me (?:in|down) for|\w+ (?:it|that) (?:in|down) as )"
)
"""How a request begins that is for an event, whatever it says."""
_NEED: Final = r"(?:(?:i|we)(?:'d| would)? )?(?:need|want|like)(?: to have)?"
_NEEDED: Final = any_case(
    rf"^\W*{_NEED} (?:the |an? )?(?=.*\b(?:in there|(?:in|into|to|on) (?:my|the|our) (?:calend[ae]r|diary"
    rf"|agenda)|registered|entered)\b)"
)
"""How a wish begins for an event in the calendar."""
_BARE: Final = any_case(rf"^{POLITE}add (?!up\b|\d)(?=.{{3,}}$)")
"""What is added but no note is an event."""
_VERB: Final = any_case(rf"^{POLITE}{_ADD}(?: in| down)? ")
_HEADED: Final = any_case(
    rf"^(?:{POLITE}(?:(?:(?:a )?new one )?for (?:my|the) calendar|calendar(?: entry)?|save the date"
    rf"|new (?:calendar )?(?:event|entry|appointment)|new (?:on|in) (?:my|the) (?:calendar|diary)|(?:\d|two"
    rf"|three|a couple of) (?:events|entries|appointments|for (?:my|the) calendar))(?: please| pls)?)\b"
)
_TRAILED: Final = any_case(
    rf"[-\u2013,;.?]? *(?:and |so )?(?:(?:{POLITE}(?:\w+ (?:you|u) )?{_ADD}|make sure) {_IT}(?:'s"
    rf"| is)? {_CALENDAR}\b(?: would you)?|{POLITE}{_ADD} (?:{_IT} )?(?:{_CALENDAR}|in there|in|down)(?: too"
    rf"| for me)?{_END}|{POLITE}(?:add|create|enter|save|register|note) {_IT}(?: in| down)?{_END}"
    rf"|(?<=[-\u2013,;.]) *{POLITE}(?:add|enter)(?: please| pls)?{_END}|get {_IT} in(?: before "
    rf".{{1,30}})?{_END}|(?P<bare>(?:into|in|on|for|to) (?:my|the) {CALENDARS})(?: i mean)?{_END}"
    rf"|(?<=[-\u2013,;.]) *(?:calendar|diary)(?= please| pl[sz]){_END}|(?:it|that|this) (?:should|must|has to"
    rf"|needs to) (?:stand|be|go) {_CALENDAR}{_END}|in (?:it|that|this) goes{_END}|(?:which )?I (?:want|need"
    rf"|wish|would like) to see (?:{_IT} )?(?:as an event|{_CALENDAR}){_END})"
)
"""A request behind what it is about: "…, put it in my calendar"."""
_CONDITION: Final = any_case(
    r"\b(?:if|unless|only (?:when|if)|in case|whether|not|never|don'?t|doesn'?t|won'?t|shouldn'?t|no need"
    r"|without|maybe|perhaps|worth|in principle|instead(?= of\b))\b"
)
_WITHDRAWN: Final = any_case(r"\b(?:already|myself|never ?mind|(?<!i )(?<!to )forget it)\b")
_TOLD: Final = any_case(rf"\b(?:yesterday|was|were|had|would be (?:lovely|nice|great)|{IS_MOVED})\b")
"""In a message that tells of something."""
_NO_TITLE: Final = any_case(
    r"\b(?:i|i'm|you|it|it's|this|that|me|we|they|he|she|her|his|their|put|want|need|get|see|have|wake|alarm"
    r"|add|create|enter|calendar|diary|events?|call it|wants|asks|asked|says|said|might|hopes|wishes"
    r"|has|had|is|are|was|were"
    r"|been)\b|[,;?]|^(?:ad|do|does|did|let|swap|reserve|switch"
    r"|change|alter|update|arrange|organi[sz]e|tell|ask|show|find|check|read|book (?:an?|the|me))\b"
)
"""In what is left of a message that says more than a title."""
_REMINDED: Final = any_case(
    r"\b(?:do not|don'?t|(?:must|should|can|may)(?:n'?t| not| never)) (?:forget|miss|be late)\b"
)
QUESTION: Final = any_case(
    rf"^\W*(?:(?:and|so|but|then|also|oh)\b[, ]*)*(?:{PREPOSED}|{QUESTION_WORDS}|am|is|are|was|were"
    rf"|do(?= (?:i|we|you|they|my|our|the|any|people)\b)|does|did|should|shall|may|might|have|has|(?:could"
    rf"|can|would) (?:i|we)(?! (?:get|have|add|put)\b.*\b(?:calend[ae]r|diary)\b)|would you be able"
    rf"|are you able)\b"
)
_BEYOND_ONE_HOUR: Final = any_case(
    r"\b(?:every|each|weekly|daily|monthly|yearly|until|till|recurring|repeating)\b|\bfrom\b.+\b(?:to"
    r"|until)\b|\bfor (?:\d+|an?|two|three|half an?) ?(?:hours?|h|days?|minutes?|min)\b|\d ?(?:-|\u2013"
    r"|to) ?\d{1,2}(?::\d\d)?\b|\btime ?zone\b|\b[A-Z]\w+/[A-Z]\w+\b"
)
_BETWEEN: Final = any_case(r"[,;] *(?:and )?| and (?:then )?")
_HAVE: Final = any_case(
    r"^(?:(?:i|we) (?:want|need|would like) to(?: go(?: for| to)?)?|i'd like to(?: go(?: for| to)?)?"
    r"|(?:i|we|they)(?:'re|'m| are| am)? (?:do|doing|hosting|holding)|let's (?:do|have|go (?:for|to))"
    r"|(?:i['\u2019]?m|i am|we['\u2019]re|we are)(?: (?:going(?: for| to)?|having))?"
    r"|(?:i|we)(?:['\u2019]ve| have| need| want)?(?: got)?(?!['\u2019])"
    r"|there(?:'?s| is)|(?:there )?comes)\b *"
)
_THERE: Final = any_case(r"\b(?:there|then|that day|(?:on )?(?:the )?same day|in there|instead)\b")
_AROUND: Final = any_case(
    rf"\b(?:{_CALENDAR}|before (?:it|that)|after (?:it|that)|for me|pleas|please|pls|plz|thanks|thank you|thx"
    rf"|me an hour of|my time|local time|(?:do not|don'?t) forget|from now|i mean|too|instead|sharp"
    rf"|registered|entered|before i forget(?: it)?)(?![\w'])|, *(?:it|that|which)(?:'s| is)\b|'s coming(?: by"
    rf"| over| round)?\b"
)
_TAKEN_BACK: Final = any_case(
    rf"[,.;-]* *\b(?:{CORRECTION}|oh no|make (?:that|it)|hm+|uh|er)\b[,.]*(?: {CORRECTION}\b,?)* "
)
"""Before what is meant instead of what was said."""
_NAMED: Final = any_case(r"^.*\b(?:called|named|titled)\s+")
_EDGES: Final = any_case(
    r"^(?:(?:an?|the|my|our|for|in|on|at|event|entry|entries|appointment for|called|named|titled|that|is|to"
    r"|and|of)\b(?!$)|[\W_])+|(?:\b(?:is|are|will be|takes place|starts|on|at|in|for|to|from|and|this|coming"
    r"|next|the|as|an?|event|entry|goes(?: in)?|it'?s|there)|[^\w)'\u2019])+$"
)
_HALF_OF_DAY: Final = any_case(r"[ap]\.?m|noon|midday|night|in the|h\b|1[3-9]|2\d|0\d")
_MARK: Final = "\u00a7"
"""In the place of a day, a time or a calendar."""
_UP_TO: Final = (
    rf"(?=\s*(?:[.;!?]|$|,(?=\s*(?:$|{_MARK}|(?:i|i'\w+|we|we're|he|he's|she|she's|they|they're|it|it's|my"
    r"|our|as|so|because|since|would|could|can|will|please|pls|thanks|no|not|before|don'?t|for|at|on|in|same"
    r"|that|this|just|and)\b)))|(?:\s+(?:goes|down|in|into|on|at|for|to|from|by|the|this|coming|that day"
    rf"|(?:that )?same day|there|then|instead|is))*\s*{_MARK})"
)
"""Where the object of a request ends: a day, a time, a calendar, or the end of its clause."""
_OBJECT: Final = any_case(
    rf"\b(?:call it|(?:put|add|enter|stick|pop|save) it (?:(?:in|down) )?as) "
    rf"(?P<called>[^{_MARK},.;!?]+?){_UP_TO}|(?:^|[,;:.!?] *|\bso )(?:{POLITE}{_ADD}(?: (?:in|off"
    rf"|down)(?= ))?|{_NEED}) (?:(?:the |on )*{_MARK}[\s{_MARK}]*(?:at |on )?{_MARK}?\s*(?:off )?for "
    rf"(?P<behind>[^{_MARK},.;!?]+?)|(?P<object>(?!sure\b)[^{_MARK},.;!?]+?)){_UP_TO}"
)
"""The object of a request for an event."""
_QUOTED: Final = re.compile(
    r"[\"\u201c](?=[^\"\u201d]*\w)([^\"\u201c\u201d]{2,60})[\"\u201d]"
    r"|(?<!\w)['\u2018](?=\w)([^'\u2018\u2019]{2,60})(?<=\w)['\u2019](?!\w)"
)
_ASKS_LAST: Final = any_case(r"\b(?:what|which|who|where|when)(?:'?s)?(?: \w+){0,2}\W*$")
_READS: Final = any_case(
    rf"^\W*{POLITE}(?:what|who|when|where|which|how|why|read|show|tell|find|look|search|check|open|list"
    r"|summari[sz]e)\b"
)
_PLACE: Final = re.compile(r"\w,? at (?:the )?(?P<name>[A-Z][\w'\u2019-]+(?: [A-Z][\w'\u2019-]+)*)[.!]?$")
"""At the end of a request: where the event is, which belongs to its title."""
_ABBREVIATED: Final = any_case(r"\b(Prof|Dr|Mrs?|Ms|St)\.")
_MORNING: Final = any_case(
    r"\b(?:morning|breakfast|run|running|jog|gym|swim\w*|yoga|flight|train|bus|airport|ferry|early)\b"
)
_EVENING: Final = any_case(
    r"\b(?:evening|tonight|night|dinner|supper|drinks?|pints?|beers?|party|pub|quiz|cinema|movie|film|concert"
    r"|gig|theatre|bbq|barbecue|table)\b"
)
_AFTERNOON_UNTIL: Final = 6
_EVENING_FROM: Final = 6
_NOON: Final = 12
_MEANT_WORDS: Final = 4
"""Of what is meant instead, in which a day or a time stands."""
_LONGEST_TITLE: Final = 10
"""Words."""
ASKED: Final = any_case(rf"\b(?:{QUESTION_WORDS})\b")


def wanted_events(
    message: str, today: dt.date, *, said_day: str = "", day_before: str = ""
) -> list[Call] | str | None:
    """Return the calls for the events that ``message`` asks for, or what to ask or decline; None if for none.

    ``said_day`` is a day that is said around it, ``day_before`` the one that was spoken of before, which is
    meant by "then" and "there".
    """
    context, asked = _parts(message, today)
    quoted = _quoted(message)
    named = quoted or _object_of(message, today)
    if not asked or _WITHDRAWN.search(message) or (_TOLD.search(message) and not named):
        return None
    if is_held_back(message):
        return NOT_ASKED
    asked = _corrected(asked, today)
    told = REASON.search(asked)
    if told and (times_in(asked[: told.start()]) or not times_in(asked)):
        asked = asked[: told.start()]
    if _BEYOND_ONE_HOUR.search(without(asked, single_days_in(asked, today))):
        return ONE_HOUR
    parts = _split(asked)
    events = [read_event(part, today) for part in parts]
    if len(parts) == 1 and named:
        begin, has_taken_back = max(0, message.find(named.split()[-1])), _TAKEN_BACK.search(message)
        behind = message if has_taken_back else message[begin:]
        day, clock = said_when(behind, today, last=bool(has_taken_back))
        before = said_when(message[:begin], today)
        day, clock = day or before[0], clock or before[1]
        if (
            quoted or not all(events[0]) or named in events[0][0]
        ):  # else what is left without day and time is the title
            events = [(named, day, _with_half_of_day(clock, f"{named} {day}"))]
    place = _PLACE.search(message)
    if place and len(events) == 1 and events[0][0] and not is_dated(place[0], today):
        title, day, clock = events[0]
        events = [(title if place["name"] in title else f"{title}, {place['name']}", day, clock)]
    days = {day for _, day, _ in events} - {""} or {first_day(context, today)} - {""}
    if not days:
        days = {said_day or (day_before if _THERE.search(message) else "")} - {""}
    calls: list[Call] = []
    for title, day, clock in events:
        day = day or (next(iter(days)) if len(days) == 1 else "")
        missing = (not title and WHICH_EVENT) or (not day and WHICH_DAY) or (not clock and WHICH_TIME)
        if missing == WHICH_EVENT and not clock and _HEADED.match(message) and days_in(message, today):
            return None  # "calendar for Friday": what is on
        if missing:
            return missing
        calls.append(("add_event", {"title": title, "date": day, "time": clock}))
    return calls


def _quoted(message: str) -> str:
    """Return the one part of ``message`` that stands in double quotes; empty if there is none."""
    quoted = [first or second for first, second in _QUOTED.findall(message)]
    return quoted[0] if len(quoted) == 1 and len(quoted[0].split()) <= _LONGEST_TITLE else ""


def _object_of(message: str, today: dt.date) -> str:
    """Return what stands behind the verb of a request for an event, up to a day, a time or a comma."""
    text = _ABBREVIATED.sub(r"\1", " ".join(message.split()))
    marked = without(text, [*single_days_in(text, today), *times_in(text)], _MARK)
    marked = re.sub(rf"\b{_CALENDAR}\b", _MARK, marked, flags=re.IGNORECASE)
    found = _OBJECT.search(marked)
    title = "" if found is None else (found["called"] or found["object"] or found["behind"] or "")
    title = _EDGES.sub("", _NAMED.sub("", title).strip(" '\"\u2018\u2019\u201c\u201d"))
    is_title = re.search(r"[^\W\d]{2}", title) and len(title.split()) <= _LONGEST_TITLE
    return title if is_title and not _NO_TITLE.search(title) else ""


def _corrected(asked: str, today: dt.date) -> str:
    """Return a request with what is taken back left out: "on Monday, no, on Friday"."""
    begin = 0
    while taken_back := _TAKEN_BACK.search(asked, begin):
        before, after = asked[: taken_back.start()], asked[taken_back.end() :]
        meant = " ".join(after.split()[:_MEANT_WORDS])
        old: Sequence[Time | Days] = ()
        if (times := times_in(meant)) and not meant[: times[0].start].strip():
            old = times_in(before)[-1:]
        elif first_day(meant, today):
            old = single_days_in(before, today)[:1]
        if not old:  # it is a word of the title
            begin = taken_back.end()
            continue
        asked = f"{without(before, old).rstrip(' ,')} {after}"
    return asked


def is_headed(message: str) -> bool:
    """Return whether ``message`` begins as an entry does, such as "calendar: …": it is one request."""
    return _HEADED.match(message) is not None


def is_trailed(message: str, today: dt.date) -> bool:
    """Return whether ``message`` tells of an event and asks at its end to add it, such as "Add it."."""
    trailed = _TRAILED.search(message)
    said = message[: trailed.start()] if trailed else ""
    is_dated = times_in(said) and first_day(said, today)
    return bool(is_dated) and "?" not in said and not ASKED.search(message)


def is_held_back(message: str) -> bool:
    """Return whether a write is forbidden, depends on something, or is only asked about."""
    return bool(_CONDITION.search(_REMINDED.sub("", _QUOTED.sub(" ", message))) or QUESTION.match(message))


def _parts(message: str, today: dt.date) -> tuple[str, str]:
    """Return what is said around a request for events, and the request; empty where there is none."""
    if headed := _HEADED.match(message):
        return message[: headed.end()], message
    if (needed := _NEEDED.match(message)) and "?" not in message:
        return "", message[needed.end() :]
    if (trailed := _TRAILED.search(message)) and not ASKED.search(message):
        told = re.split(r"(?<=[.!?])\s+", f"{message[: trailed.start()]} {message[trailed.end() :]}".strip())
        dated = [each for each in told if times_in(each) or first_day(each, today)]
        if dated or not trailed["bare"]:
            has_title = any(read_event(each, today)[0] for each in dated)
            return "", " ".join(dated if has_title else told)
    for adding in _ADDING.finditer(message):
        asked = message[adding.end() :]
        if (
            re.search(rf"{_CALENDAR}|\b(?:event|appointment)\b", asked, re.IGNORECASE)
            or times_in(asked)
            or first_day(asked, today)
            or _SURELY_EVENT.match(adding[0] + asked)
        ):
            return message[: adding.start()], asked
    if bare := _BARE.match(message):
        return "", message[bare.end() :]
    is_dated = times_in(message) or first_day(message, today)
    if _quoted(message) and is_dated and not (_READS.match(message) or message.endswith("?")):
        return "", message
    if (
        not _ASKS_LAST.search(message)
        and not QUESTION.match(message)
        and "?" not in message
        and times_in(message)
        and first_day(message, today)
    ):
        return ("", message) if len(message.split()) <= _LONGEST_TITLE + 8 else ("", "")
    return "", ""


def _split(asked: str) -> Sequence[str]:
    """Return the parts of a request of which each has a time of its own."""
    parts: list[str] = []
    begin = 0
    for between in _BETWEEN.finditer(asked):
        if times_in(asked[begin : between.start()]) and times_in(asked[between.end() :]):
            parts.append(asked[begin : between.start()])
            begin = between.end()
    parts.append(asked[begin:])
    return [part for part in parts if re.search(r"[^\W\d]{2}", without(part, times_in(part)))] or parts


def _with_half_of_day(clock: str, said: str) -> str:
    """Return ``clock`` with the half of the day that is meant where none is said: lunch at 1, drinks at 8."""
    if not clock or _HALF_OF_DAY.search(clock) or _MORNING.search(said):
        return clock
    hour = parse_time(clock).hour
    if 1 <= hour < _AFTERNOON_UNTIL:
        return f"{clock} in the afternoon"
    if _EVENING_FROM <= hour < _NOON and _EVENING.search(said):
        return f"{clock} in the evening"
    return clock


def read_event(part: str, today: dt.date) -> tuple[str, str, str]:
    """Return the title, the day and the time of an event; empty where they are missing."""
    times, single = times_in(part)[:1], single_days_in(part, today)
    clock = times[0].said if times else ""
    days = {day.first: day.said for day in reversed(single)}
    part = _VERB.sub("", _HEADED.sub(" ", " ".join(without(part, [*times, *single]).split())))
    part = " ".join(part.split())
    said = part
    title = _NAMED.sub("", _AROUND.sub(" ", _THERE.sub(" ", part)))
    title = _EDGES.sub("", _HAVE.sub("", _EDGES.sub("", " ".join(title.split()))))
    title = title.strip(" '\"\u2018\u2019\u201c\u201d")
    clock = _with_half_of_day(clock, " ".join([said, *days.values()]))
    if times_in(title) or len(title.split()) > _LONGEST_TITLE or not re.search(r"[^\W\d]{2}", title):
        title = ""
    return (
        "" if _NO_TITLE.search(title) else title,
        next(iter(days.values())) if len(days) == 1 else "",
        clock,
    )
