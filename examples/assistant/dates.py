"""Dates and times as people say them."""

from __future__ import annotations

import calendar
import datetime as dt
import difflib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from .errors import ToolError

_RELATIVE = {
    "today": 0, "tonight": 0, "this": 0, "later today": 0, "now": 0, "tomorrow": 1, "day after tomorrow": 2,
    "yesterday": -1, "day before yesterday": -2, "todays": 0, "tonights": 0, "tomorrows": 1,
}  # fmt: skip
_PART_OF_DAY = re.compile(r"(?<=.) (?:morning|noon|afternoon|arvo|evening|night)$")
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%b %d %Y", "%d %b %Y")  # with slashes it is ambiguous
_IN_DAYS = re.compile(
    r"in (?P<number>\d{1,3}|[a-z]+) (?P<unit>day|week)s?(?: from (?:today|now))?"
    r"|(?P<count>\d{1,3}|[a-z]+) (?P<units>day|week)s? (?:from )?(?:today|now)"
)
_WEEK_AFTER = re.compile(r"(?:a )?week (?:on|from) ([a-z]+)|([a-z]+) week")
_OF_NEXT_WEEK = re.compile(r"([a-z]+) (?:of )?next week|next week(?: on)? ([a-z]+)")
_DAY_OF_MONTH = re.compile(r"(?:([a-z]+) )?(?:the )?(\d{1,2})(?:st|nd|rd|th)")
BARE_DAY_OF_MONTH = re.compile(r"\W*(?:(?:on|the) )*(?P<day>\d{1,2})(?:st|nd|rd|th)\W*", re.IGNORECASE)
"""A day of the month without its month or weekday."""
_ONES = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]
_TEENS = [
    "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
    "eighteenth", "nineteenth",
]  # fmt: skip
_TWENTIES = ["twentieth", *(f"twenty-{one}" for one in _ONES)]
_ORDINALS = {
    word: str(number)
    for number, word in enumerate([*_ONES, *_TEENS, *_TWENTIES, "thirtieth", "thirty-first"], 1)
}
_HOLIDAYS = {
    "christmas eve": (12, 24), "christmas": (12, 25), "christmas day": (12, 25), "boxing day": (12, 26),
    "new year eve": (12, 31), "new year day": (1, 1),
}  # fmt: skip
_BEFORE_MONTH = ("in", "during", "throughout", "about", "me")  # else May may be a verb, and June a person
_MONTH = re.compile(
    r"(?:(?P<which>this|next) month|(?:(?:all|rest) of |whole (?:month )?of )?(?P<name>[a-z]{3,9})(?:"
    r" (?P<year>\d{4}))?)"
)
_WEEK = re.compile(
    r"(?P<which>this |next |last |coming |rest of (?:the |this )?)?(?P<what>week|weekend)(?:(?<=[st] week)s)?"
    r"(?P<after_next> after next)?"
)
_WEEK_BESIDE = re.compile(r"week (?P<which>before|after|of) (?!next$)(?P<day>.+)")
_NEXT_DAYS = re.compile(r"(?:next|coming) (?P<number>few|couple of|\d|[a-z]+) days")
PUNCTUATION = " .,;:!?"
_MOST_WORDS = 6  # of a day, such as "on Friday the 4th of December"
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})(?:/(\d{4}))?")
_SHORTEST_MISSPELT = 6
_DAY_NAMES = ["tomorrow", "yesterday", *map(str.lower, calendar.day_name)]
_HOURS = [
    "twelve", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
]  # fmt: skip
_MINUTES = {"five": 5, "ten": 10, "quarter": 15, "a quarter": 15, "twenty": 20, "twenty-five": 25, "half": 30}
_BEHIND = {"ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "forty-five": 45, "fifty": 50}
SPOKEN_PART = rf"(?:(?:{'|'.join(_MINUTES)})[ -](?:past|to)|half)"
"""Of an hour, before it; a pattern."""
SPOKEN_MINUTES = rf"(?:{'|'.join(sorted(_BEHIND, key=len, reverse=True))})"
"""Of an hour, behind it; a pattern."""
_SPOKEN_CLOCK = re.compile(
    rf"(?:(?P<minutes>{'|'.join(_MINUTES)})(?P<side> past| to)? )?(?P<hour>{'|'.join(_HOURS)}|1[0-2]|[1-9])"
    rf"(?: (?P<behind>{SPOKEN_MINUTES})| o'?clock)?(?: ?(?P<half>[ap]m))?"
)
_CLOCK = re.compile(r"(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d{2})h?|h)?\s*(?:(?P<half>[ap])\.?m\.?|o'?clock)?")


def parse_days(text: str, today: dt.date) -> tuple[dt.date, dt.date]:
    """The first and the last day that ``text`` means: a week, a weekend, a month or the next days.

    Otherwise that is the day that :func:`parse_date` reads. A week begins on Monday; of this one, and of this
    month, what is left counts.
    """
    said = _normalised(text)
    if span := _month(said, today) or _next_days(said, today):
        return span
    if beside := _WEEK_BESIDE.fullmatch(said):
        return _week_beside(beside["which"], parse_date(beside["day"], today))
    match = _WEEK.fullmatch(said)
    if not match:
        day = parse_date(text, today)
        return day, day
    weeks = {"last ": -1, "next ": 1}.get(match["which"], 2 if match["after_next"] else 0)
    monday = today + dt.timedelta(days=7 * weeks - today.weekday())
    first = monday + dt.timedelta(days=5 if match["what"] == "weekend" else 0)
    return first if weeks < 0 else max(first, today), monday + dt.timedelta(days=6)


def _week_beside(which: str, day: dt.date) -> tuple[dt.date, dt.date]:
    """The seven days before or after ``day``, or the week that it is in."""
    if which == "before":
        return day - dt.timedelta(days=7), day - dt.timedelta(days=1)
    first = day + dt.timedelta(days=1) if which == "after" else day - dt.timedelta(days=day.weekday())
    return first, first + dt.timedelta(days=6)


def place_of_days(words: Sequence[str], today: dt.date, begin: int = 0) -> tuple[int, int, str] | None:
    """The first and longest part of ``words`` from ``begin`` on that :func:`parse_days` reads.

    Returns where it begins and ends, and the part without the punctuation around it; None if there is none.
    """
    for start in range(begin, len(words)):
        word, before = words[start].casefold(), words[start - 1].casefold() if start else ""
        if word in ("on", "for", "at", "the"):
            continue
        if before == "the" and word.strip(PUNCTUATION) in ("sun", "mar"):
            continue  # which shines
        if word == "sat" and words[start + 1 : start + 2] and words[start + 1] in ("down", "in", "on", "at"):
            continue  # who sits
        for end in range(min(len(words), start + _MOST_WORDS), start, -1):
            said = " ".join(words[start:end]).strip(PUNCTUATION)
            with suppress(ToolError):
                parse_days(said, today)
                if said.casefold() in ("this", "now"):
                    continue
                is_month = _place(said.casefold(), calendar.month_name) is not None
                if not is_month or len(words) == 1 or before in _BEFORE_MONTH:
                    return start, end, said
    return None


def parse_date(text: str, today: dt.date) -> dt.date:
    """The day that ``text`` means when said on ``today``.

    A weekday is its next occurrence, "Friday" said on a Friday today; "next Friday" is that of the week that
    begins next Monday, "last Friday" the one before today. A day and month without a year is the coming one.
    Raises :class:`ToolError`.
    """
    said = _spelt_right(_PART_OF_DAY.sub("", _normalised(text)))
    if said in _RELATIVE:
        return today + dt.timedelta(days=_RELATIVE[said])
    try:
        day = (
            _weekday(said, today)
            or _of_next_week(said, today)
            or _week_after(said, today)
            or _in_days(said, today)
            or _day_of_month(said, today)
            or _last_of_month(said, today)
            or _calendar_day(said, today)
        )
    except OverflowError:  # a day after the year 9999
        day = None
    if day is None:
        raise ToolError(
            f"cannot understand the date {text!r}; say for example tomorrow, next Friday, "
            "December 24 or 2026-12-24"
        )
    return day


def parse_time(text: str) -> dt.time:
    """The time of day that ``text`` means, such as "15:00", "3pm" or "noon"."""
    said = " ".join(text.casefold().split()).strip(" .,!?").removeprefix("at ").replace("-past", " past")
    if said.endswith(" at night"):
        time = parse_time(said.removesuffix(" at night"))
        return time.replace(hour=(time.hour + 12) % 24) if 6 <= time.hour <= 12 else time
    if said in ("noon", "midday"):
        return dt.time(12)
    if said == "midnight":
        return dt.time(0)
    said = re.sub(r" in the (morning|afternoon|arvo|evening)$", _half_of_day, said)
    spoken = _SPOKEN_CLOCK.fullmatch(said)
    if spoken and (spoken["minutes"] in (None, "half") or spoken["side"]) and not all(spoken.group(1, 4)):
        hour = spoken["hour"]
        minutes = 60 * (int(hour) if hour.isdecimal() else _HOURS.index(hour))
        minutes += _MINUTES.get(spoken["minutes"], 0) * (-1 if spoken["side"] == " to" else 1)
        minutes += _BEHIND.get(spoken["behind"], 0)
        said = f"{minutes // 60 % 12 or 12}:{minutes % 60:02d}{spoken['half'] or ''}"
    match = _CLOCK.fullmatch(said)
    if match:
        hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
        if half:
            hour = hour % 12 + (12 if half == "p" else 0) if 1 <= hour <= 12 else 24
        if hour < 24 and minute < 60:
            return dt.time(hour, minute)
    raise ToolError(f"cannot understand the time {text!r}; say for example 15:00 or 3pm")


def _half_of_day(match: re.Match[str]) -> str:
    return "am" if match[1] == "morning" else "pm"


_SHORT = {
    "tomorrow": "tmrw|tmr|tmw|tomoz|2moro", "tonight": "tonite|2nite", "today": "2day", "next": "nxt",
    "week": "wk", "two weeks": "a fortnight",
}  # fmt: skip


def _normalised(text: str) -> str:
    for word, short in _SHORT.items():
        text = re.sub(rf"\b(?:{short})(?=s?\b)", word, text, flags=re.IGNORECASE)
    said = " ".join(text.casefold().replace("'s", "").split()).strip(" .,!?")
    return re.sub(r"^(?:on |for |at )?(?:the )?(?=.)", "", said)


def _weekday(said: str, today: dt.date) -> dt.date | None:
    match = re.fullmatch(r"(next |this |coming |last )?([a-z]+)", said)
    number = _place(_spelt_right(match[2]), calendar.day_name) if match else None
    if not match or number is None:
        return None
    ahead = number - today.weekday()
    if match[1] == "last ":
        return today + dt.timedelta(days=ahead % 7 - 7)
    return today + dt.timedelta(days=ahead + 7 if match[1] == "next " else ahead % 7)


def _spelt_right(word: str) -> str:
    """The long name of a day that a single word is spelt like, otherwise the word: "tomorow"."""
    if len(word) < _SHORTEST_MISSPELT or not word.isalpha() or word.endswith("s"):
        return word
    return next(iter(difflib.get_close_matches(word, _DAY_NAMES, 1, 0.85)), word)


def _month(said: str, today: dt.date) -> tuple[dt.date, dt.date] | None:
    match = _MONTH.fullmatch(said)
    if not match:
        return None
    if match["which"]:
        month = (today.month - 1 + (match["which"] == "next")) % 12 + 1
    elif (found := _place(match["name"], calendar.month_name)) is None:
        return None
    else:
        month = found
    year = int(match["year"] or today.year + (month < today.month))
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        return None
    last = dt.date(year, month, calendar.monthrange(year, month)[1])
    return (max(last.replace(day=1), today) if last >= today else last.replace(day=1)), last


def _last_of_month(said: str, today: dt.date) -> dt.date | None:
    span = _month(re.sub(r"^the (?=month)", "this ", said.removeprefix("last day of ")), today)
    return span[1] if span and said.startswith("last day of ") else None


def _next_days(said: str, today: dt.date) -> tuple[dt.date, dt.date] | None:
    match = _NEXT_DAYS.fullmatch(said)
    if not match:
        return None
    number = match["number"]
    count = int(number) if number.isdecimal() else {"few": 3, "couple of": 2, **_NUMBERS}.get(number)
    return None if count is None else (today, today + dt.timedelta(days=count))


def _in_days(said: str, today: dt.date) -> dt.date | None:
    match = _IN_DAYS.fullmatch("in a week" if said == "next week" else said)
    if not match:
        return None
    count = match["number"] or match["count"]
    number = int(count) if count.isdecimal() else _NUMBERS.get(count)
    if number is None:
        return None
    return today + dt.timedelta(days=number * (7 if "week" in (match["unit"], match["units"]) else 1))


def _of_next_week(said: str, today: dt.date) -> dt.date | None:
    match = _OF_NEXT_WEEK.fullmatch(said)
    number = _place(match[1] or match[2], calendar.day_name) if match else None
    return None if number is None else today + dt.timedelta(days=7 - today.weekday() + number)


def _week_after(said: str, today: dt.date) -> dt.date | None:
    """A week after the next day of that name: "a week on Friday", "Friday week"."""
    match = _WEEK_AFTER.fullmatch(said)
    day = _weekday(match[1] or match[2], today) if match else None
    return None if day is None else day + dt.timedelta(days=7)


def _day_of_month(said: str, today: dt.date) -> dt.date | None:
    """The next day of that number, such as "the 5th", and of that weekday if one is named."""
    match = _DAY_OF_MONTH.fullmatch(said)
    if not match:
        return None
    weekday = _place(match[1], calendar.day_name) if match[1] else None
    if match[1] and weekday is None:
        return None
    days = (today + dt.timedelta(days=ahead) for ahead in range(366))
    return next((day for day in days if day.day == int(match[2]) and weekday in (None, day.weekday())), None)


def _calendar_day(said: str, today: dt.date) -> dt.date | None:
    """An ISO date, or a day and a month with or without a year and a weekday."""
    if said in _HOLIDAYS:
        month, number = _HOLIDAYS[said]
        said = f"{number} {calendar.month_abbr[month]}".lower()
    if slashes := _SLASHES.fullmatch(said):
        first, second = int(slashes[1]), int(slashes[2])
        if (first > 12) is (second > 12):  # which of them is the month is not to be told
            return None
        day, month = (first, second) if first > 12 else (second, first)
        said = f"{day} {calendar.month_abbr[month].lower()} {slashes[3] or ''}".strip() if month else ""
    words = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|[,.](?!\d)|\b(?:the|of)\b", " ", said).split()
    words = [_ORDINALS.get(word, word) for word in words]
    if len(words) > 2 and _place(words[0], calendar.day_name) is not None:
        del words[0]
    months = [_place(word, calendar.month_name) for word in words]
    text = " ".join(
        word if month is None else calendar.month_abbr[month]
        for word, month in zip(words, months, strict=True)
    )
    if len(words) != 2:
        return _read(text)
    years = range(today.year, min(today.year + 9, dt.MAXYEAR + 1))  # February 29 may be eight years away
    days = (_read(f"{text} {year}") for year in years)
    return next((day for day in days if day is not None and day >= today), None)


def _read(text: str) -> dt.date | None:
    for form in _FORMATS:
        with suppress(ValueError):
            return dt.datetime.strptime(text, form).date()
    return None


def _place(short: str, names: Iterable[str]) -> int | None:
    """Where among ``names`` is the one that ``short`` abbreviates."""
    found = [place for place, name in enumerate(names) if name.lower().startswith(short)]
    return found[0] if len(short) >= 3 and len(found) == 1 else None
