"""Words, shapes, dates and times in text, and runs of words that an argument may be copied from."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

MAX_CHARACTERS = 400
"""The longest text that counts as one value."""
_MAX_WORDS = 80  # of one message
_TOKEN = re.compile(r"\S+")
_EDGES = "\"'`“”‘’()[]{}<>*,;:!?…"  # noqa: RUF001 - the marks that people type
_CLAUSE_END = re.compile(r"[,;:.!?)\]]$")
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_|-|\.|\s")
_STOP = frozenset(
    """a an and are as at be by can could do for from get give have help i if in is it me my of on or please
    tell that the this to want what which will with would you your""".split()  # noqa: SIM905 - one list
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = "|".join(["sept", *(f"{month}|{month[:3]}" for month in _MONTHS)])
_DATE = re.compile(
    rf"\b(?:(?P<m1>{_MONTH})\.? (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<y1>\d{{4}}))?"
    rf"|(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH})\.?(?:,? (?P<y2>\d{{4}}))?"
    r"|(?P<y3>\d{4})[-/](?P<n3>\d{1,2})[-/](?P<d3>\d{1,2}))\b",
    re.IGNORECASE,
)
_TIME = re.compile(r"\b(?:(\d{1,2})(?::(\d{2}))? ?([ap])\.?m\b|(\d{1,2}):(\d{2})(?::\d{2})?)", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:19|20)\d{2}\b")


@functools.lru_cache(4096)
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, roughly stemmed, without stop words."""
    return tuple(stem(word) for word in _WORD.findall(_CAMEL.sub(" ", text).lower()) if word not in _STOP)


@functools.lru_cache(4096)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of an identifier, equal for ``user_id``, ``userId`` and ``user-id``."""
    return tuple(stem(word) for word in _CAMEL.sub(" ", name).lower().split())


def stem(word: str) -> str:
    """Return a word without the endings that differ between a request and a name."""
    for ending, least in (("ing", 3), ("ies", 3), ("es", 3), ("ed", 3), ("s", 2)):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return word[: -len(ending)]
    return word


@functools.lru_cache(4096)
def shape(text: str) -> str:
    """Return the kind of a text: its runs of upper case, lower case and digits, and the marks between.

    ``HAT052`` is ``A9``, ``mia_li_3668`` is ``a_a_9``, ``2024-05-21`` is ``9-9-9``; long ones are cut.
    """
    kinds: list[str] = []
    for character in text[:64]:
        if character.isdigit():
            kind = "9"
        elif character.isalpha():
            kind = "A" if character.isupper() else "a"
        else:
            kind = character
        if not kinds or kinds[-1] != kind or kind not in "9Aa":
            kinds.append(kind)
    # Mixed identifiers (4WQ150, Q7A9) differ in their runs, and so do capitalised words.
    squeezed = "".join(kinds).replace("Aa", "W")
    if re.fullmatch(r"[A9]{3,}", squeezed):
        return f"code{min(len(text), 16)}"
    return re.sub(r"(.{1,3}?)\1{2,}", r"\1+", squeezed)[:16]


def dates(text: str, years: tuple[str, ...]) -> Iterator[tuple[int, str, bool]]:
    """Yield (position, date as ``YYYY-MM-DD``, whether the text has the year) for each date in a text.

    ``years`` are tried for dates without a year.
    """
    for found in _DATE.finditer(text):
        parts = found.groupdict()
        month = parts["m1"] or parts["m2"]
        number = int(parts["n3"]) if month is None else _month_number(month)
        day = int(parts["d1"] or parts["d2"] or parts["d3"])
        said = parts["y1"] or parts["y2"] or parts["y3"]
        if 1 <= number <= 12 and 1 <= day <= 31:
            for year in (said,) if said else years:
                yield found.start(), f"{year}-{number:02}-{day:02}", bool(said)


def times(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, time as ``HH:MM``) for each time of day in a text."""
    for found in _TIME.finditer(text):
        if found[3]:
            hour, minute = int(found[1]) % 12 + 12 * (found[3].lower() == "p"), int(found[2] or 0)
        else:
            hour, minute = int(found[4]), int(found[5])
        if hour < 24 and minute < 60:
            yield found.start(), f"{hour:02}:{minute:02}"


def years_in(text: str) -> list[str]:
    """Return the years that a text names, in order."""
    return _YEAR.findall(text)


def _month_number(name: str) -> int:
    return next(n for n, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()[:3]))


def tokens_in(line: str) -> list[str]:
    """Return the words of a line without the punctuation around them."""
    return [token.strip(_EDGES).rstrip(".") for token in _TOKEN.findall(line)]


def spans(text: str, longest: int) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
    """Yield (position, number of words, text, traits) for each run of up to ``longest`` words in a clause.

    A short message is also yielded as a whole, with 0 as its number of words.
    """
    tokens = [(found.start(), found.group()) for found in _TOKEN.finditer(text)][:_MAX_WORDS]
    if 1 < len(tokens) <= 40 and len(text) <= MAX_CHARACTERS:
        yield tokens[0][0], 0, text.strip(), ("whole",)
        yield tokens[0][0], 0, text.strip().rstrip(".!?"), ("whole",)
    for first in range(len(tokens)):
        for last in range(first, min(first + longest, len(tokens))):
            start = tokens[first][0]
            end = tokens[last][0] + len(tokens[last][1])
            span = text[start:end].strip(_EDGES).rstrip(".")
            if span and (first == last or (words(tokens[first][1]) and words(tokens[last][1]))):
                yield start, last - first + 1, span, tuple(_traits(tokens, first, last, span))
            if _CLAUSE_END.search(tokens[last][1]):
                break


def words_before(text: str, position: int) -> tuple[str, ...]:
    """Return the last words, at most four, before a position in a text."""
    found = re.findall(r"[\w#]+", text[max(0, position - 60) : position].lower())
    return tuple(found[-4:])


def _traits(tokens: Sequence[tuple[int, str]], first: int, last: int, span: str) -> Iterable[str]:
    inner = span.split()
    if all(word[:1].isupper() for word in inner):
        goes_on = last + 1 < len(tokens) and tokens[last + 1][1][:1].isupper()
        goes_on = goes_on and not _CLAUSE_END.search(tokens[last][1])
        led = first > 0 and tokens[first - 1][1][:1].isupper() and first > 1
        led = led and not _CLAUSE_END.search(tokens[first - 1][1])
        yield "capitals" if not (goes_on or led) else "part of capitals"
    if _CLAUSE_END.search(tokens[last][1]) or last == len(tokens) - 1:
        yield "ends a clause"
    if any(character.isdigit() for character in span):
        yield "digits"
    if len(tokens) == 1:
        yield "alone"
