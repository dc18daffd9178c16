"""Which days a question is about: those that it names, the day of an event, or the day spoken of before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from . import phrases
from .calendar import ALL_DAY, Dated, title_words
from .data import PersonalData
from .dates import parse_date, parse_days, parse_time
from .errors import ToolError
from .results import Made
from .retrieval import KINDS, Found, content_words, retrieve
from .sentences import Sentence, is_request
from .when import days_in, first_day
from .writes import Call

_Least: TypeAlias = Literal["one", "most", "all"]
_DAYS_AHEAD: Final = 30
_MOST_DAYS: Final = 3
"""On which something of the same name is."""
_SURE: Final = 0.5
_CORRECTS: Final = phrases.any_case(rf"\b{phrases.CORRECTION}\b")
"""Between a day that is taken back and the one that is meant."""


@dataclass(frozen=True)
class AskedDays:
    """Finds the days that a question is about, or the text, where words of an event's title may mean one."""

    data: PersonalData
    now: dt.datetime

    @property
    def today(self) -> dt.date:
        return self.now.date()

    def calls(self, sentence: Sentence, said_day: str, before: Sequence[Made]) -> list[Call]:
        """Return the call for the events of a day that is named, or of the day of an event that is."""
        if sentence.kind == "names" and sentence.is_long:
            return []
        text = sentence.text
        again = [*days_of(before), *([said_day] if said_day else [])]
        if again and (named := phrases.DAY_AFTER_THAT.search(text)):
            with suppress(ToolError):
                behind = parse_date(again[-1], self.today) + dt.timedelta(days=1)
                return [("list_events", {"date": f"{parse_date(named['day'] + 'day', behind)}"})]
        if again and (named := phrases.OF_THAT_WEEK.search(text)):
            with suppress(ToolError):
                known = parse_date(again[-1], self.today)
                monday = known - dt.timedelta(days=known.weekday())
                return [("list_events", {"date": f"{parse_date(named['day'] + 'day', monday)}"})]
        days = _named_days(text, self.today)
        if again and phrases.WEEK_AFTER.search(text) and days in ([], ["week"]):
            with suppress(ToolError):
                behind = parse_days(again[-1], self.today)[1] + dt.timedelta(days=1)
                behind += dt.timedelta(days=-behind.weekday() % 7)
                return [("list_events", {"date": f"week of {behind}"})]
        if days:
            listed: list[Call] = [("list_events", {"date": each}) for each in days]
            found, is_on = self._text_of_days(text)
            return [*([] if found and not is_on else listed), *([found.call] if found else [])]
        if phrases.NEXT_EVENT.match(text):
            event = next((each for each in self._ahead() if self._is_ahead(each)), None)
            return [("list_events", {"date": f"{event.date if event else self.today}"})]
        if again and phrases.NEXT_DAY.search(text):
            with suppress(ToolError):
                next_day = parse_date(again[-1], self.today) + dt.timedelta(days=1)
                return [("list_events", {"date": f"{next_day:%Y-%m-%d}"})]
        if again and (phrases.SAME_DAY.search(text) or not (content_words(text) or sentence.is_doubtful)):
            text_of = self._text_of_days(text)[0] if phrases.SAME_DAY.search(text) else None
            return [("list_events", {"date": again[-1]}), *([text_of.call] if text_of else [])]
        asks = phrases.CALENDAR.search(text)
        words = [word for word in content_words(text) if not phrases.CALENDAR.fullmatch(word)]
        asks_when = asks or phrases.WHEN.search(text)
        least: _Least = "one" if asks_when else "most" if phrases.WHERE.match(text) else "all"
        if not phrases.LAST_TIME.search(text) and (meant := self._days_of_events(words, least)):
            return [("list_events", {"date": day}) for day in meant]
        of_text = phrases.PRONOUN.search(text) and any(call.has_text for call in before)  # "is it free?"
        asks = phrases.MY_CALENDAR.search(text) if of_text else asks
        return [("list_events", {"date": "today"})] if asks and not retrieve(words, self.data, KINDS) else []

    def _text_of_days(self, text: str) -> tuple[Found | None, bool]:
        """Return the text that ``text`` is about, which names days, and whether an event may be, too."""
        if phrases.CALENDAR.search(phrases.THE_PLAN.sub("", text)):
            return None, True
        days = [day.said for day in days_in(text, self.today)]
        named = content_words(" ".join(days))
        words = [word for word in content_words(text) if not phrases.CALENDAR.fullmatch(word)]
        words = [word for word in words if word not in named or retrieve([word], self.data, KINDS)]
        found = self.text(words)
        subject = found.words.difference(named) if found else ()
        if not found or not subject or found.share < _SURE:
            return None, True
        events = [event for day in days for event in self.data.calendar.events_on(day)]
        asked_of = () if phrases.SAID.search(text) else events
        on = max((_said_of(each.title, subject) for each in asked_of), default=0)
        is_only_it = is_request(text) and (not events or found.is_sure(words))
        return (found if on < len(subject) else None), on > 0 or not is_only_it

    def date(self, text: str) -> str:
        """Return the date of a day that ``text`` asks for by its name; nothing if it asks for none."""
        if not (asks := phrases.WHICH_DATE.match(text)):
            return ""
        said = text[asks.end() :].strip(" ?!.")
        day = first_day(said, self.today)
        if not day or said.casefold().removeprefix("this ") != day.casefold().removeprefix("this "):
            return ""
        return f"{said[0].upper()}{said[1:]} is {parse_date(day, self.today):%A, %B %d, %Y}."

    def text(self, words: Sequence[str], near: Collection[str] = ()) -> Found | None:
        """Return the text that has most of ``words``, or of the title of an event that they may mean."""
        unknown = {word for word in words if not retrieve([word], self.data, KINDS)}
        titles = [content_words(event.title) for event in self._ahead()] if unknown else []
        more = [word for title in titles if unknown.intersection(title) for word in title]
        found = retrieve([*words, *more], self.data, KINDS, near) if more else None
        is_named = found and found.words.intersection(words) and found.words.intersection(more)
        return found if is_named else retrieve(words, self.data, KINDS, near)

    def _days_of_events(self, words: Sequence[str], least: _Least) -> list[str]:
        """Return the days ahead with the events that have most of ``words``, and as many as any text.

        ``least`` says how many it has to have; with "all" also more than any text.
        """
        found = retrieve(words, self.data, KINDS)
        known = len(found.words) if found else 0
        if not words or (least == "all" and known == len(words)):
            return []
        needed = max(known, {"one": 1, "most": len(words) // 2 + 1, "all": len(words)}[least])
        near = [(_said_of(each.title, words), each) for each in self._ahead()]
        most = max((said for said, _ in near), default=0)
        if most < needed:
            return []
        meant: dict[str, str] = {}  # of a series the first
        for said, event in near:
            if said == most:
                meant.setdefault(event.title, f"{max(event.date, self.today)}")
        return list(dict.fromkeys(meant.values()))[:_MOST_DAYS]

    def _is_ahead(self, event: Dated) -> bool:
        if event.date > self.now.date() or event.time == ALL_DAY:
            return event.date >= self.now.date()
        return event.date == self.now.date() and parse_time(event.time) >= self.now.time()

    def _ahead(self) -> list[Dated]:
        return self.data.calendar.find(self.today, self.today + dt.timedelta(days=_DAYS_AHEAD - 1))


def days_of(calls: Sequence[Made]) -> list[str]:
    """Return the days that were looked at, or to which an event was added or moved."""
    days = (call.arguments.get("new_date") or call.arguments.get("date") for call in calls)
    return [str(day) for day in days if day]


def _said_of(title: str, words: Collection[str]) -> int:
    """Return how many of the ``words`` are in the title of an event."""
    return sum(any(each.startswith(word[:5]) for each in title_words(title)) for word in words)


def _named_days(text: str, today: dt.date) -> list[str]:
    """Return the parts of ``text`` that mean a day or a week; for what was done on a weekday, its date."""
    past = dt.timedelta(days=7 if phrases.DID.match(text) else 0)
    named = days_in(text, today)
    taken_back = {before for before, day in pairwise(named) if _CORRECTS.search(text[before.end : day.start])}
    return [
        f"{day.first - past}" if past and day.said.isalpha() and day.first > today else day.said
        for day in named
        if day not in taken_back
        and not (day.said.casefold() in ("week", "weekend") and phrases.RATE.search(text[: day.start]))
    ]
