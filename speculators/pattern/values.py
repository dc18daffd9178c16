"""The values in a conversation that a call's arguments may be copied from, and where each was found."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from .events import CallEvent, Event, MessageEvent, ResultEvent
from .text import MAX_CHARACTERS, dates, name_words, spans, times, tokens_in, words, words_before, years_in
from .tool_output import Leaf, leaves

_MAX_LEAVES = 200  # of one result
_MAX_VALUES = 300
_MAX_SOURCES = 3
_MAX_LINES = 120
_LONGEST_SPAN_OF_LAST = 5  # words, in the user's last message
_LONGEST_SPAN = 2  # words, in earlier messages
_QUOTED = re.compile(r"'([^'\n]{1,80})'(?!\w)|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|`([^`\n]{1,200})`")
_FIELD = re.compile(r"""([A-Za-z_][\w.-]*)\s*[=:]\s*("[^"]*"|'[^']*'|[^\s,;<>"']+)""")


@dataclass(frozen=True, slots=True)
class Source:
    """One place where a value was found.

    ``kind`` is result, argument, request, reply or date; ``path`` where in it, with list positions left
    out; ``name`` the words that name the value there; ``record`` identifies what was found together;
    ``before`` has the last words in front of it; ``position`` is its index in the list it is in.
    """

    kind: str
    path: str
    name: tuple[str, ...]
    record: tuple[Any, ...]
    traits: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    position: int | None = None

    @property
    def place(self) -> str:
        """The field of a tool's calls or results, or the kind of message: the same in all conversations."""
        return self.path if self.kind in ("result", "argument") else self.kind

    def features(self) -> list[str]:
        """Return the features that do not depend on the parameter the value may be for."""
        features = [self.kind, self.path, *(f"{self.kind}:{trait}" for trait in self.traits)]
        if self.kind in ("request", "reply", "date"):
            features.append(f"after {self.before[-1]}" if self.before else "after nothing")
        return features


@dataclass(slots=True)
class Value:
    """A value, the places where it was found, the latest first, and their features."""

    value: Any
    key: str
    sources: list[Source] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    records: set[tuple[Any, ...]] = field(default_factory=set)


def key_of(value: Any) -> str:
    """Return the text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def type_of(value: Any) -> str:
    """Return JSON schema's name of a value's type."""
    for kind, name in (
        (bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"),
        (list, "array"), (dict, "object"),
    ):  # fmt: skip
        if isinstance(value, kind):
            return name
    return "null"


def coerced(value: Any, wanted: str) -> Any:
    """Return the value as the type ``wanted``, a name of JSON schema; None if it cannot be converted."""
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
    """All values found in one conversation, the latest first, until there are more than 300."""

    def __init__(self, history: Sequence[Event], years: Sequence[str]) -> None:
        """``years`` are tried for dates without a year, after those that the user's messages name."""
        self.by_key: dict[str, Value] = {}
        self.request = _request_words(history)
        requests = [event for event in history if isinstance(event, MessageEvent) and not event.by_model]
        named = [year for request in requests for year in years_in(request.text)]
        self._years = tuple(dict.fromkeys([*named, *years]))[:3]
        requests_seen = 0
        for number in range(len(history) - 1, -1, -1):
            event = history[number]
            age = _age(len(history) - 1 - number)
            if isinstance(event, ResultEvent):
                self._add_result(event, number, age)
            elif isinstance(event, CallEvent):
                self._add_arguments(event, number, age)
            else:
                self._add_message(event, number, age, is_last_request=not requests_seen)
                requests_seen += not event.by_model
            if len(self.by_key) > _MAX_VALUES:
                break

    def _add(self, value: Any, source: Source) -> None:
        if isinstance(value, str) and not 0 < len(value) <= MAX_CHARACTERS:
            return
        key = key_of(value)
        known = self.by_key.get(key)
        if known is None:
            known = self.by_key[key] = Value(value, key)
        if len(known.sources) < _MAX_SOURCES and all(source.path != other.path for other in known.sources):
            known.sources.append(source)
            known.records.add(source.record)
            known.features += [each for each in source.features() if each not in known.features]

    # A result: the leaves of its JSON, or the lines of its text.

    def _add_result(self, event: ResultEvent, number: int, age: str) -> None:
        if isinstance(event.value, str):
            self._add_lines(event, event.value, number, age)
            return
        found = list(itertools.islice(leaves(Leaf(event.value, "", (), (number,))), _MAX_LEAVES))
        words_of: dict[tuple[Any, ...], set[str]] = {}
        for leaf in found:
            if isinstance(leaf.value, str) and len(leaf.value) < 200:
                words_of.setdefault(leaf.record, set()).update(words(leaf.value))
        relevance = dict(zip(words_of, self._relevance(list(words_of.values())), strict=True))
        for leaf in found:
            traits = (age, *relevance.get(leaf.record, ()))
            path = f"{event.tool}{leaf.path}"
            source = Source("result", path, leaf.name, leaf.record, traits, position=leaf.position)
            self._add(leaf.value, source)

    def _relevance(self, records: Sequence[Collection[str]]) -> list[tuple[str, ...]]:
        """Return traits of records, each given by its words, that say how many words the request shares."""
        counts = Counter(word for record in records for word in record)
        # fsum, because the order in a set differs from process to process, and with it what sum rounds to.
        shared = [math.fsum(1 / counts[word] for word in self.request.intersection(each)) for each in records]
        most = max(shared, default=0.0)
        found = []
        for record, common in zip(records, shared, strict=True):
            share = common / math.fsum(1 / counts[word] for word in record) if common else 0.0
            traits = [f"told{sum(share > bound for bound in (0.0, 0.2, 0.4, 0.7))}"]
            if common and common == most:
                traits.append("likest")
            found.append(tuple(traits))
        return found

    def _add_lines(self, event: ResultEvent, text: str, number: int, age: str) -> None:
        # Lines are cut: looking for fields takes time quadratic in the line's length.
        lines = [line.strip()[:MAX_CHARACTERS] for line in text.splitlines() if line.strip()][:_MAX_LINES]
        relevance = self._relevance([frozenset(words(line)) for line in lines])
        for position, (line, relevant) in enumerate(zip(lines, relevance, strict=True)):
            traits, record = (age, *relevant), (number, position)

            def add(value: str, path: str, name: tuple[str, ...]) -> None:
                path = f"{event.tool}/{path}"
                self._add(value, Source("result", path, name, record, traits, position=position))  # noqa: B023

            tag = line[1:].split(None, 1)[0].rstrip(">") if line.startswith("<") else ""
            add(line, f"line{tag}", ("line",))
            for name, value in _FIELD.findall(line):
                add(value.strip("\"'"), f"line.{name}", name_words(name))
            for token in tokens_in(line)[:24]:
                add(token, "path" if "/" in token else "word", ())

    # A call: its arguments.

    def _add_arguments(self, event: CallEvent, number: int, age: str) -> None:
        for name, value in (event.arguments or {}).items():
            if isinstance(value, str) and len(value) > MAX_CHARACTERS:
                continue
            record = ("call", number)
            self._add(value, Source("argument", f"{event.tool}.{name}", name_words(name), record, (age,)))
            if isinstance(value, str) and " " in value:
                for token in value.split()[:12]:
                    self._add(token, Source("argument", f"{event.tool}.{name}/word", (), record, (age,)))

    # A message: quoted parts, runs of words, dates.

    def _add_message(self, event: MessageEvent, number: int, age: str, *, is_last_request: bool) -> None:
        kind = "reply" if event.by_model else "request"
        if is_last_request and not event.by_model:
            age, longest = "new", _LONGEST_SPAN_OF_LAST
        else:
            longest = _LONGEST_SPAN
        for found in _QUOTED.finditer(event.text):
            text = next(group for group in found.groups() if group)
            before = words_before(event.text, found.start())
            self._add(text, Source(kind, "quoted", (), (number, found.start()), (age,), before))
        if event.by_model and age not in ("age0", "age1"):
            return
        for start, length, span, traits in spans(event.text, longest):
            before = words_before(event.text, start)
            path = f"span{length}"
            self._add(span, Source(kind, path, (), (number, start), (age, *traits), before))
        if not event.by_model:
            self._add_dates(event.text, number, age)

    def _add_dates(self, text: str, number: int, age: str) -> None:
        found = list(dates(text, self._years))
        clock = list(times(text))
        for start, date, names_year in found:
            traits = (age, "year said" if names_year else "year known")
            before = words_before(text, start)
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
            self._add(time, Source("date", "time", (), (number, start), (age,), words_before(text, start)))


def _age(events: int) -> str:
    return f"age{events}" if events < 3 else "age3" if events < 6 else "old"


def _request_words(history: Sequence[Event]) -> frozenset[str]:
    requests = [event.text for event in history if isinstance(event, MessageEvent) and not event.by_model]
    return frozenset(word for text in requests[-1:] + requests[:1] for word in words(text[:4000]))
