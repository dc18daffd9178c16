"""Days and times of day in what a person says, and what is left of it without them."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from .dates import PUNCTUATION, SPOKEN_MINUTES, SPOKEN_PART, parse_days, parse_time, place_of_days
from .errors import ToolError
from .phrases import any_case

_NUMBER: Final = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d{1,2})"
_MONTH: Final = rf"(?:{'|'.join(filter(None, [*calendar.month_name, *calendar.month_abbr]))})\b"
_UNITS: Final = r"[a-z]*(?:day|week|people|persons|minutes?|hours?|percent|euros?)"
_HALF: Final = r" (?:in the (?:morning|afternoon|arvo|evening)|at night)"
_CLOCK: Final = any_case(
    r"(?:\b(?:at|by|from)|@)? *(?:(?<![\w.])\d{1,2}[:.h]\d{2}(?!\d|\.\d)(?: ?[ap]\.?m\b\.?|h\b|(?!\w))"
    rf"|\b{_NUMBER} ?(?:[ap]\.?m\b\.?|o'?clock\b)|\b\d{{1,2}}h\b|\b{SPOKEN_PART} {_NUMBER}\b(?: ?[ap]\.?m\b)?"
    rf"|\b(?:noon|midday|midnight)\b|\b{_NUMBER}(?={_HALF})|\b{_NUMBER} {SPOKEN_MINUTES}\b(?: ?[ap]\.?m\b)?"
    rf"(?! {_UNITS})|(?<=\bat ){_NUMBER}\b(?![:.]\d| ?(?:{_UNITS}|{_MONTH})))(?:{_HALF})?"
)


@dataclass(frozen=True)
class Time:
    """A time of day in a text, as :func:`parse_time` reads it."""

    said: str
    start: int
    end: int

    @property
    def time(self) -> dt.time:
        return parse_time(self.said)


@dataclass(frozen=True)
class Days:
    """A day in a text, or a week and the like, as :func:`parse_days` reads it."""

    said: str
    start: int
    end: int
    first: dt.date
    last: dt.date

    @property
    def is_one(self) -> bool:
        return self.first == self.last


def times_in(text: str) -> list[Time]:
    """Return the times of day in ``text``, in order."""
    times = []
    for match in _CLOCK.finditer(text):
        said = re.sub(r"^(?:at|by|from|@) *", "", match[0].strip(), flags=re.IGNORECASE)
        said = re.sub(
            r"(?<=\d)\.(?=\d)", ":", re.sub(r"(?<=[ap]m)\.$", "", said)
        )  # a full stop is none of it
        with suppress(ToolError):
            parse_time(said)
            times.append(Time(said, match.start(), match.end()))
    return times


def days_in(text: str, today: dt.date) -> list[Days]:
    """Return the days, weeks and the like in ``text``, in order. A time of day may stand within one."""
    rest = without(text, times_in(text))
    words = list(re.finditer(r"\S*\w\S*", rest))
    days: list[Days] = []
    begin = 0
    while found := place_of_days([word[0] for word in words], today, begin):
        start, begin, said = found
        first, last = words[start], words[begin - 1]
        days.append(
            Days(
                said,
                first.end() - len(first[0].lstrip(PUNCTUATION)),
                last.start() + len(last[0].rstrip(PUNCTUATION)),
                *parse_days(said, today),
            )
        )
    return days


def single_days_in(text: str, today: dt.date) -> list[Days]:
    """Return the single days in ``text``, in order, without weeks and the like."""
    return [day for day in days_in(text, today) if day.is_one]


def is_dated(text: str, today: dt.date) -> bool:
    """Return whether ``text`` names a day, a week or the like, or a time of day."""
    return bool(times_in(text) or days_in(text, today))


def first_day(text: str, today: dt.date) -> str:
    """Return the first single day that ``text`` names, not a week; empty if it names none."""
    return next((day.said for day in single_days_in(text, today)), "")


def said_when(text: str, today: dt.date, *, last: bool = True) -> tuple[str, str]:
    """Return the last day and time of day in ``text``, which may correct others, or the first ones.

    They are empty where there are none.
    """
    place = slice(-1, None) if last else slice(1)
    days = [day.said for day in single_days_in(text, today)]
    return "".join(days[place]), "".join(time.said for time in times_in(text)[place])


def without(text: str, parts: Sequence[Time | Days], mark: str = " ") -> str:
    """Return ``text`` with ``mark`` in the place of each character of ``parts``."""
    for part in parts:
        text = f"{text[: part.start]}{mark * (part.end - part.start)}{text[part.end :]}"
    return text
