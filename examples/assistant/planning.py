"""What a message asks for, request by request, as its words say: calls, fixed answers, or nothing to tell by.

"What is on tomorrow, and add lunch with Ben on Friday at 12" are two requests. Most need no model: a day, a
city, an ordinal, or words of one of the user's texts say which tool is meant, and with which arguments.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from .data import PersonalData
from .dates import find_days
from .needs import Need, needs_of_words
from .references import referred
from .results import Made, state
from .retrieval import Found, TextKind, content_words, retrieve
from .writes import (
    POLITE,
    WHICH_TEXT,
    Call,
    dictated_note,
    find_day,
    is_headed,
    notes_what_was_said,
    wanted_events,
)

WHICH_SMALL_NAMES: Final = r"[a-z\u00df-\u00ff][\w-]{2,}(?: [a-z\u00df-\u00ff][\w-]{2,})?"
_CITY: Final = re.compile(
    rf"\b(?:in|for|of|at) ({_SMALL_NAMES}(?:(?:, ?| and | or ){_SMALL_NAMES})*)"
    r"|([a-z\u00df-\u00ff][\w-]{2,})(?= (?:weather|forecast))"
)
_NO_CITY: Final = frozenset(
    """
    the my our this that next today tomorrow tonight now here there week weekend morning afternoon evening night
    january february march april may june july august september october november december monday tuesday
    wednesday thursday friday saturday sunday weather forecast what how is and local current
    please right like going get will later soon outside what whats tell also then
    """.split()  # noqa: SIM905
)
_CALENDAR: Final = re.compile(
    r"\b(?:calendar|diary|agenda|schedule|appointments?|meetings?|events?|free|busy|available|planned|plans?"
    r"|going on|happening|anything on|something on|(?:what's|what is|whats) (?:on|up|next)|on my plate|my day|my week"
    r"|squeeze in|coming up)\b",
    re.IGNORECASE,
)
_RATE: Final = re.compile(r"\b(?:per|an?|each|every|once|twice) $", re.IGNORECASE)
_SAME_DAY: Final = re.compile(r"\b(?:same day|that day|after that|before that|then)\b", re.IGNORECASE)
_HALVES: Final = re.compile(r"\band(?: also)?\b|[,&+;]", re.IGNORECASE)
_ANY: Final = re.compile(
    r"^\W*(?:do i have|have i got|which|what|list|show(?: me)?|are there|any|got any)\b[^,]*\b(?:files|notes|mails"
    r"|e-?mails|documents)\b",
    re.IGNORECASE,
)
"""A question for a list of what there is about something."""
_WHEN: Final = re.compile(r"\b(?:when|what time|which day|what day|at what time)\b", re.IGNORECASE)
_SOURCES: Final[Mapping[TextKind, re.Pattern[str]]] = {
    "mail": re.compile(
        r"\b(?:e-?mails?|mails?|e-?mailed|mailed|inbox|mailbox|messages? from|wrote (?:to )?me|writes? to me|written (?:to )?me"
        r"|write (?:to )?me|heard? from|in touch|sent me)\b",
        re.IGNORECASE,
    ),
    "notes": re.compile(
        r"\b(?:notes?|noted|jotted|(?:wrote|written|write) (?:it |that )?down)\b", re.IGNORECASE
    ),
    "files": re.compile(r"\b(?:files?|documents?|docs?|folders?)\b|\w\.(?:txt|md|csv)\b", re.IGNORECASE),
}
_LISTED: Final = re.compile(
    r"\b(?:all|list|new|newest|latest|recent|unread|last|any|every|which|what|inbox|most recent|got|have)\b",
    re.IGNORECASE,
)
_LISTS: Final[Mapping[TextKind, Call]] = {
    "mail": ("search_mail", {"query": "new mail"}),
    "notes": ("search_notes", {"query": "all notes"}),
}
_SEARCHES: Final[Mapping[TextKind, str]] = {
    "mail": "search_mail", "notes": "search_notes", "files": "search_files"
}  # fmt: skip
_NEWEST: Final = re.compile(
    r"\b(?:new|newest|latest|last|most recent|recent|unread|inbox|very)\b", re.IGNORECASE
)
_READ: Final = re.compile(r"\b(?:read|open|say|says|summari[sz]e|about)\b", re.IGNORECASE)
_SURE: Final = 0.5
_LIKELY: Final = 0.3
_DAYS_AHEAD: Final = 30
_FOLLOWS: Final = re.compile(
    r"^\W*(?:and|or|what about|how about|also|then|same for|ok and)\b|^\W*(?:in|on|for) \w+\W*$|^\W*\w+(?: \w+)?\W*$",
    re.IGNORECASE,
)
_FOLLOWED: Final = re.compile(
    r"^\W*(?:(?:and|or|what about|how about|also|then|same for|ok|the weather|weather|in|for|of)\b\W*)+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Step:
    """One request of a message."""

    text: str
    calls: Sequence[Call] = ()
    says: str = ""
    """A fixed answer."""
    found: Found | None = None
    """The text that the request may be about, if its words do not tell for sure."""

    @property
    def is_sure(self) -> bool:
        return bool(self.calls or self.says)


@dataclass(frozen=True)
class Planner:
    """Plans a message by its words, the user's data and what was called before."""

    data: PersonalData
    today: dt.date

    def plan(self, message: str, before: Sequence[Made], earlier: Sequence[Made]) -> list[Step]:
        """Return the requests of ``message``; ``before`` has the calls for the last one, ``earlier`` all others."""
        if is_headed(message):
            return [self._step(message, "", before, earlier)]
        parts = [part.strip() for part in _ENDS.split(message) if part and re.search(r"\w", part)]
        steps: list[Step] = []
        said: list[str] = []
        for place, part in enumerate(parts):
            if _is_statement(part) and (steps or place < len(parts) - 1):
                said.append(part)
                continue
            step = self._step(part, " ".join(said), before, earlier)
            likely = step.found is not None and step.found.coverage >= _LIKELY
            if step.is_sure or likely or needs_of_words(part) or place == len(parts) - 1:
                steps.append(step)
            else:
                said.append(part)
        return steps or [self._step(message, "", before, earlier)]

    def _step(self, text: str, context: str, before: Sequence[Made], earlier: Sequence[Made]) -> Step:
        step = Step(text)
        if notes_what_was_said(text) and (answer := _stated(before, self.today)):
            return replace(step, calls=[("create_note", {"text": answer})])
        if (text_of_note := dictated_note(text)) is not None:
            return replace(
                step,
                calls=[("create_note", {"text": text_of_note})] if text_of_note else (),
                says="" if text_of_note else WHICH_TEXT,
            )
        for part in (text, text.rpartition(", ")[2]):
            if needs_of_words(part):
                return Step(part)
        day_before = next((str(call.arguments["date"]) for call in before if "date" in call.arguments), "")
        events = wanted_events(text, self.today, find_day(context, self.today) or day_before)
        if events is not None:
            return replace(step, says=events) if isinstance(events, str) else replace(step, calls=events)
        if call := referred(text, before, earlier):
            return replace(step, calls=[call])
        if (cities := self._cities(text, context, before)) is not None:
            calls = [("get_weather", {"city": city}) for city in cities]
            return replace(step, calls=calls, says="" if calls else WHICH_CITY)
        if calls := self._named_source(text):
            return replace(step, calls=calls)
        if calls := self._days(text, before):
            return replace(step, calls=calls)
        if _TALK.match(text) or _is_statement(text):
            return step
        return self._text(step, context, before)

    def with_text(self, step: Step) -> Step:
        """Return ``step`` with the text that it is probably about, if there is one."""
        if step.found is None or step.found.coverage < _LIKELY:
            return replace(step, found=None)
        return replace(step, calls=[step.found.call])

    def for_need(self, step: Step, need: Need) -> Step:
        """Return ``step`` with the calls for something of which only the kind is known."""
        if need in _SEARCHES:
            words = " ".join(content_words(step.text)) or step.text
            calls = [step.found.call] if step.found else [(_SEARCHES[need], {"query": words})]
        elif need == "calendar":
            calls = [("list_events", {"date": find_days(step.text, self.today) or "today"})]
        elif need == "weather":
            calls = [("get_weather", {"city": city}) for city in _cities_in(step.text)]
            if not calls:
                return replace(step, says=WHICH_CITY)
        elif need == "web":
            calls = [("search_web", {"query": step.text})]
        else:
            return replace(step, found=None)
        return replace(step, calls=[*step.calls, *calls])

    def _cities(self, text: str, context: str, before: Sequence[Made]) -> list[str] | None:
        """Return the cities whose weather is asked for; None if no weather is."""
        follows = any(call.name == "get_weather" for call in before) and _FOLLOWS.match(text)
        cities = _cities_in(text)
        if _WEATHER.search(text) or (_PERHAPS_WEATHER.search(text) and _names_in(text)):
            return cities or _names_in(context)
        if follows and not find_days(text, self.today):
            return cities or [_FOLLOWED.sub("", text).strip(" ?!.,")]
        return None

    def _named_source(self, text: str) -> list[Call]:
        """Return the call for a text whose kind or path is named."""
        for path in self.data.files.all():
            if path.casefold() in text.casefold():
                return [("read_file", {"path": path})]
        kinds = [kind for kind, pattern in _SOURCES.items() if pattern.search(text)]
        if not kinds:
            return []
        words = [word for word in content_words(text) if not _NEWEST.fullmatch(word)]
        if words and _ANY.match(text) and kinds[0] in _SEARCHES:
            return [(_SEARCHES[kinds[0]], {"query": " ".join(words)})]
        if not words and _LISTED.search(text) and kinds[0] in _LISTS:
            mails = self.data.mail.all()
            if kinds[0] == "mail" and mails and _READ.search(text) and _NEWEST.search(text):
                return [("read_mail", {"id": mails[-1].id})]
            return [_LISTS[kinds[0]]]
        if words and (found := retrieve(words, self.data, kinds)) and found.coverage >= _LIKELY:
            return [found.call]
        missing = [word for word in words if not retrieve([word], self.data, kinds)]
        return [(_SEARCHES[kinds[0]], {"query": " ".join(missing or words)})] if words else []

    def _days(self, text: str, before: Sequence[Made]) -> list[Call]:
        """Return the call for the events of a day that is named, or of the day of an event that is."""
        if _is_statement(text):
            return []
        if days := _all_days(text, self.today):
            return [("list_events", {"date": day}) for day in days]
        again = [call.arguments["date"] for call in before if call.name == "list_events"]
        if again and (_SAME_DAY.search(text) or not content_words(text)):
            return [("list_events", {"date": again[-1]})]
        asks = _CALENDAR.search(text)
        words = [word for word in content_words(text) if not _CALENDAR.fullmatch(word)]
        if (asks or _WHEN.search(text)) and (day := self._day_of_event(words)):
            return [("list_events", {"date": day})]
        return [("list_events", {"date": "today"})] if asks and not retrieve(words, self.data, _KINDS) else []

    def _day_of_event(self, words: Sequence[str]) -> str:
        """Return the first day ahead with an event that has more of ``words`` than any text; else nothing."""
        found = retrieve(words, self.data, _KINDS)
        least = max(1, round((found.coverage if found else 0) * len(words)))
        for ahead in range(_DAYS_AHEAD):
            day = f"{self.today + dt.timedelta(days=ahead):%Y-%m-%d}"
            for event in self.data.calendar.events_on(day):
                if sum(word[:5] in event.title.casefold() for word in words) >= least:
                    return day
        return ""

    def _text(self, step: Step, context: str, before: Sequence[Made]) -> Step:
        """Return the step with the text that the request is about, if it has one."""
        own = content_words(step.text)
        read = [call for call in before if call.has_text]
        near = {str(value) for call in read for value in call.arguments.values()}
        found = retrieve(own, self.data, _KINDS, near)
        if (found is None or found.coverage < _LIKELY) and context:
            found = retrieve([*own, *content_words(context)], self.data, _KINDS, near) or found
        if (found is None or found.coverage < _LIKELY) and read:
            return replace(step, calls=[(read[-1].name, read[-1].arguments)])
        halves = [retrieve(content_words(half), self.data, _KINDS) for half in _HALVES.split(step.text)]
        sure = [half for half in halves if half and half.coverage >= _SURE]
        if len({half.name for half in sure}) > 1:
            return replace(step, calls=[half.call for half in sure])
        if _GREETING.match(context) and len(own) < 2:
            return step
        if found and found.coverage >= _SURE:
            return replace(step, calls=[found.call])
        return replace(step, found=found)


def _stated(before: Sequence[Made], today: dt.date) -> str:
    """Return what was found for the last message, as it was stated."""
    return "\n".join(state(call, today) for call in before if not call.failed)


def _all_days(text: str, today: dt.date) -> list[str]:
    """Return the parts of ``text`` that mean a day or a week."""
    days: list[str] = []
    while day := find_days(text, today):
        before, _, after = text.partition(day)
        if not (day.casefold() in ("week", "weekend", "year") and _RATE.search(before)):
            days.append(day)
        text = f"{before} , {after}"
    return days


def _is_statement(part: str) -> bool:
    return not part.endswith("?") and _STATES.match(part) is not None and not needs_of_words(part)


def _cities_in(text: str) -> list[str]:
    """Return the cities in a question about the weather, which may be written small."""
    return _names_in(text) or [
        city
        for found in _CITY.finditer(text)
        for each in re.split(r",| and | or ", found[1] or found[2])
        if (city := " ".join(takewhile(lambda word: word not in _NO_CITY, each.split())))
    ]


def _names_in(text: str) -> list[str]:
    names = [next(filter(None, match)).removesuffix("'s") for match in _CITIES.findall(text)]
    return list(dict.fromkeys(name for name in names if name.casefold() not in _NO_CITY))
