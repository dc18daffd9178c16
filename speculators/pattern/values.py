"""Where a call's arguments may come from: every value in sight, and how it came to be there."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .history import Called, Event, Returned, Said
from .text import dates, name_words, times, words, years_in

_MAX_LEAVES = 200  # of one result
_MAX_VALUES = 300
_MAX_DEPTH = 6
_MAX_SOURCES = 3
_MAX_CHARACTERS = 400  # of one value
_MAX_LINES = 120
_MAX_WORDS = 80  # of one message
_LONGEST_SPAN = (5, 2)  # words, in the last request and in earlier ones
_QUOTED = re.compile(r"'([^'\n]{1,80})'(?!\w)|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|`([^`\n]{1,200})`")
_TOKEN = re.compile(r"\S+")
_FIELD = re.compile(r"""([A-Za-z_][\w.-]*)\s*[=:]\s*("[^"]*"|'[^']*'|[^\s,;<>"']+)""")
_EDGES = "\"'`“”‘’()[]{}<>*,;:!?…"  # noqa: RUF001 - the marks that people type
_CLAUSE_END = re.compile(r"[,;:.!?)\]]$")


@dataclass(frozen=True, slots=True)
class Source:
    """One place where a value was found.

    ``kind`` is result, argument, request, reply or date; ``path`` where in it, with list positions left
    out; ``name`` the words that name the value there; ``record`` what else was found beside it; ``before``
    the last words in front of it; ``place`` its position in the list it is in.
    """

    kind: str
    path: str
    name: tuple[str, ...]
    record: tuple[Any, ...]
    traits: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    place: int | None = None

    def circumstances(self) -> list[str]:
        """What can be said of the place without knowing what the value is wanted for."""
        said = [self.kind, self.path, *(f"{self.kind}:{trait}" for trait in self.traits)]
        if self.kind in ("request", "reply", "date"):
            said.append(f"after {self.before[-1]}" if self.before else "after nothing")
        return said


@dataclass(slots=True)
class Value:
    """A value and all the places where it was found, the latest first."""

    value: Any
    key: str
    sources: list[Source] = field(default_factory=list)
    circumstances: list[str] = field(default_factory=list)
    records: set[tuple[Any, ...]] = field(default_factory=set)


def key_of(value: Any) -> str:
    """The text by which equal values are known."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def type_of(value: Any) -> str:
    """The name that JSON schema has for a value's type."""
    for kind, name in (
        (bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"),
        (list, "array"), (dict, "object"),
    ):  # fmt: skip
        if isinstance(value, kind):
            return name
    return "null"


def coerced(value: Any, wanted: str) -> Any:
    """The value as the type that is wanted, or None where it is none."""
    kind = type_of(value)
    if kind == wanted or (wanted == "number" and kind == "integer"):
        return value
    if wanted == "string" and kind in ("integer", "number"):
        return str(value)
    if kind == "string" and wanted in ("integer", "number") and len(value) < 20:
        try:
            number = int(value) if wanted == "integer" else float(value.replace(",", ""))
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return None


class Values:
    """All values in sight in one conversation."""

    def __init__(self, history: Sequence[Event], years: Sequence[str]) -> None:
        """``years`` are tried for dates that name none."""
        self.by_key: dict[str, Value] = {}
        self.request = _request_words(history)
        said = [event for event in history if isinstance(event, Said) and not event.by_model]
        self._years = tuple(dict.fromkeys([y for each in said for y in years_in(each.text)] + [*years]))[:3]
        turns = 0
        for number in range(len(history) - 1, -1, -1):
            event = history[number]
            age = _age(len(history) - 1 - number)
            if isinstance(event, Returned):
                self._result(event, number, age)
            elif isinstance(event, Called):
                self._call(event, number, age)
            else:
                newest = turns == 0 and not event.by_model
                self._said(event, number, "new" if newest else age, longest=_LONGEST_SPAN[not newest])
                turns += not event.by_model
            if len(self.by_key) > _MAX_VALUES:
                break

    def _add(self, value: Any, source: Source) -> None:
        if isinstance(value, str) and not 0 < len(value) <= _MAX_CHARACTERS:
            return
        key = key_of(value)
        known = self.by_key.get(key)
        if known is None:
            known = self.by_key[key] = Value(value, key)
        if len(known.sources) < _MAX_SOURCES and all(source.path != other.path for other in known.sources):
            known.sources.append(source)
            known.records.add(source.record)
            known.circumstances += [
                each for each in source.circumstances() if each not in known.circumstances
            ]

    # A result: the leaves of its JSON, or the lines of its text.

    def _result(self, event: Returned, number: int, age: str) -> None:
        if isinstance(event.value, str):
            self._lines(event, event.value, number, age)
            return
        leaves = list(itertools.islice(_leaves(event.value, "", (), (number,), None, 0), _MAX_LEAVES))
        said: dict[tuple[Any, ...], set[str]] = {}
        for _, _, record, _, value in leaves:
            if isinstance(value, str) and len(value) < 200:
                said.setdefault(record, set()).update(words(value))
        likeness = dict(zip(said, self._likeness(list(said.values())), strict=True))
        for path, name, record, place, value in leaves:
            traits = (age, *likeness.get(record, ()))
            self._add(value, Source("result", f"{event.tool}{path}", name, record, traits, place=place))

    def _likeness(self, records: Sequence[Collection[str]]) -> list[tuple[str, ...]]:
        """Which of several records, each with its words, speak of what was asked for."""
        counts = Counter(word for record in records for word in record)
        shared = [sum(1 / counts[word] for word in self.request.intersection(record)) for record in records]
        most = max(shared, default=0.0)
        found = []
        for record, common in zip(records, shared, strict=True):
            told = common / sum(1 / counts[word] for word in record) if common else 0.0
            traits = [f"told{sum(told > bound for bound in (0.0, 0.2, 0.4, 0.7))}"]
            if common and common == most:
                traits.append("likest")
            found.append(tuple(traits))
        return found

    def _lines(self, event: Returned, text: str, number: int, age: str) -> None:
        # Cut, because to look for fields in a line takes time with the square of its length.
        found = [line.strip()[:_MAX_CHARACTERS] for line in text.splitlines() if line.strip()][:_MAX_LINES]
        likeness = self._likeness([frozenset(words(line)) for line in found])
        for place, (line, like) in enumerate(zip(found, likeness, strict=True)):
            traits = (age, *like)
            record = (number, place)
            tag = line[1:].split(None, 1)[0].rstrip(">") if line.startswith("<") else ""
            whole = Source("result", f"{event.tool}/line{tag}", ("line",), record, traits, place=place)
            self._add(line, whole)
            for name, value in _FIELD.findall(line):
                words_of = name_words(name)
                path = f"{event.tool}/line.{name}"
                self._add(value.strip("\"'"), Source("result", path, words_of, record, traits, place=place))
            for token in _TOKEN.findall(line)[:24]:
                bare = token.strip(_EDGES).rstrip(".")
                sort = "path" if "/" in bare else "word"
                where = f"{event.tool}/{sort}"
                self._add(bare, Source("result", where, (), record, traits, place=place))

    # A call: its arguments.

    def _call(self, event: Called, number: int, age: str) -> None:
        for name, value in (event.arguments or {}).items():
            if isinstance(value, str) and len(value) > _MAX_CHARACTERS:
                continue
            record = ("call", number)
            self._add(value, Source("argument", f"{event.tool}.{name}", name_words(name), record, (age,)))
            if isinstance(value, str) and " " in value:
                for token in value.split()[:12]:
                    self._add(token, Source("argument", f"{event.tool}.{name}/word", (), record, (age,)))

    # Text: quoted parts, runs of words, dates.

    def _said(self, event: Said, number: int, age: str, *, longest: int) -> None:
        kind = "reply" if event.by_model else "request"
        for found in _QUOTED.finditer(event.text):
            text = next(group for group in found.groups() if group)
            before = _before(event.text, found.start())
            self._add(text, Source(kind, "quoted", (), (number, found.start()), (age,), before))
        if event.by_model and age not in ("age0", "age1"):
            return
        for start, length, span, traits in _spans(event.text, longest):
            before = _before(event.text, start)
            path = f"span{length}"
            self._add(span, Source(kind, path, (), (number, start), (age, *traits), before))
        if not event.by_model:
            self._moments(event.text, number, age)

    def _moments(self, text: str, number: int, age: str) -> None:
        found = list(dates(text, self._years))
        clock = list(times(text))
        for start, date, said_year in found:
            traits = (age, "year said" if said_year else "year known")
            before = _before(text, start)
            ordinal = ("first",) if start == found[0][0] else ("later",)

            def add(value: str, form: str) -> None:
                source = Source("date", form, (), (number, start), traits + ordinal, before)  # noqa: B023
                self._add(value, source)

            add(date, "day")
            add(date[5:], "month and day")
            add(f"{date} 00:00:00", "midnight")
            for _, time in clock:
                add(f"{date} {time}:00", "moment")
        for start, time in clock:
            self._add(time, Source("date", "time", (), (number, start), (age,), _before(text, start)))


def _age(events: int) -> str:
    return f"age{events}" if events < 3 else "age3" if events < 6 else "old"


def _request_words(history: Sequence[Event]) -> frozenset[str]:
    said = [event.text for event in history if isinstance(event, Said) and not event.by_model]
    return frozenset(word for text in said[-1:] + said[:1] for word in words(text[:4000]))


def _leaves(
    value: Any, path: str, name: tuple[str, ...], record: tuple[Any, ...], place: int | None, depth: int
) -> Iterator[tuple[str, tuple[str, ...], tuple[Any, ...], int | None, Any]]:
    """Yield (path, name, record, place in its list, leaf) of parsed JSON."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        keyed = len(value) > 1 and _is_keyed(value)
        for key, inner in value.items():
            inside = isinstance(inner, (dict, list))
            if keyed:  # an object that is a table: its keys are data
                yield f"{path}{{key}}", name, (*record, key), None, key
            step = f"{path}{{}}" if keyed else f"{path}.{key}"
            named = name if keyed else name_words(str(key))
            yield from _leaves(inner, step, named, (*record, key) if inside else record, place, depth + 1)
    elif isinstance(value, list):
        if value and all(isinstance(each, (str, int, float)) for each in value) and len(value) <= 20:
            yield f"{path}[*]", name, record, None, value
        for index, inner in enumerate(value):
            inside = isinstance(inner, (dict, list))
            at = (*record, index) if inside else record
            yield from _leaves(inner, f"{path}[]", name, at, index, depth + 1)
    elif isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            yield path, name, record, place, value
        else:
            yield from _leaves(inner, path, name, record, place, depth + 1)
    elif value is not None:
        yield path, name, record, place, value


def _is_keyed(value: dict[str, Any]) -> bool:
    """Whether an object's keys are data: its values are objects of one form."""
    forms = [frozenset(inner) for inner in value.values() if isinstance(inner, dict)]
    return (
        len(forms) == len(value)
        and len({form & forms[0] == frozenset() for form in forms}) == 1
        and (len(frozenset.intersection(*forms)) > 0)
    )


def _spans(text: str, longest: int) -> Iterator[tuple[int, int, str, tuple[str, ...]]]:
    """Yield (position, number of words, text, traits) for each run of words within a clause."""
    tokens = [(found.start(), found.group()) for found in _TOKEN.finditer(text)][:_MAX_WORDS]
    if 1 < len(tokens) <= 40 and len(text) <= _MAX_CHARACTERS:
        yield tokens[0][0], 0, text.strip(), ("whole",)
        yield tokens[0][0], 0, text.strip().rstrip(".!?"), ("whole",)
    for first in range(len(tokens)):
        for last in range(first, min(first + longest, len(tokens))):
            start = tokens[first][0]
            end = tokens[last][0] + len(tokens[last][1])
            span = text[start:end].strip(_EDGES).rstrip(".")
            if span and (first == last or (words(tokens[first][1]) and words(tokens[last][1]))):
                yield start, last - first + 1, span, tuple(_span_traits(text, tokens, first, last, span))
            if _CLAUSE_END.search(tokens[last][1]):
                break


def _span_traits(
    text: str, tokens: Sequence[tuple[int, str]], first: int, last: int, span: str
) -> Iterable[str]:
    inner = span.split()
    if all(word[:1].isupper() for word in inner):
        runs_on = last + 1 < len(tokens) and tokens[last + 1][1][:1].isupper()
        runs_on = runs_on and not _CLAUSE_END.search(tokens[last][1])
        led = first > 0 and tokens[first - 1][1][:1].isupper() and first > 1
        led = led and not _CLAUSE_END.search(tokens[first - 1][1])
        yield "capitals" if not (runs_on or led) else "part of capitals"
    if _CLAUSE_END.search(tokens[last][1]) or last == len(tokens) - 1:
        yield "ends a clause"
    if any(character.isdigit() for character in span):
        yield "digits"
    if len(tokens) == 1:
        yield "alone"


def _before(text: str, position: int) -> tuple[str, ...]:
    found = re.findall(r"[\w#]+", text[max(0, position - 60) : position].lower())
    return tuple(found[-4:])
