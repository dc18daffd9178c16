"""Texts that are searched by their words and read by short ids: notes, mails and other files."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from .errors import ToolError
from .search import MOST_FOUND, Index
from .sources import Kind, Parsed, Source, Sources

if TYPE_CHECKING:
    from .meaning import MeaningIndex

T = TypeVar("T")

_RANK_OFFSET = 60
"""Of reciprocal rank fusion: how little the first places count more than those behind them."""
_IN_TITLE = 1.5
_IN_OTHER_FORM = 0.9
"""How much a word counts that is there in another form, such as "prices" for "pricing"."""


def fingerprint(key: Hashable) -> str:
    """A hash of strings, numbers and tuples of them that is the same in later runs, in 16 characters."""
    return hashlib.sha256(repr(key).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Entry:
    """A text as it was read; ``key`` stays the same when the text changes."""

    key: Hashable
    title: str
    text: str
    sender: str = ""
    sent: float = 0.0
    unread: bool = False

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the key that is the same in later runs."""
        return fingerprint(self.key)

    @cached_property
    def folded(self) -> str:
        """Title and text without a difference of case."""
        return f"{self.title} {self.text}".casefold()


class Texts(ABC, Generic[T]):
    """The texts in the files of some kinds, by numbers that stay theirs. May be used on any thread."""

    def __init__(
        self,
        sources: Sources,
        kinds: Sequence[Kind],
        parse: Callable[[Source], list[Entry]],
        meaning: MeaningIndex | None = None,
    ) -> None:
        """With ``meaning``, which becomes this object's, texts are searched by meaning, too."""
        self._meaning = meaning
        self._parsed = Parsed(sources, kinds, parse)
        self._lock = threading.Lock()
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, Entry] = {}
        self._index = Index()
        self.all()

    def search(self, query: str, limit: int = MOST_FOUND) -> list[T]:
        """Those whose title, sender or text matches best, see :mod:`.search`; or is nearest in meaning.

        A text's places in both orders count alike (reciprocal rank fusion).
        """
        near = [] if self._meaning is None else self._meaning.search(query, limit)
        with self._lock:
            entries = self._entries()
            scores: dict[int, float] = {}
            for order in (self._index.search(query, limit), near):
                for place, number in enumerate(order):
                    scores[number] = scores.get(number, 0.0) + 1 / (_RANK_OFFSET + place)
            best = sorted(scores.keys() & entries.keys(), key=lambda number: (-scores[number], number))
            return [self._shown(number, entries[number]) for number in best[:limit]]

    def weigh(self, word: str) -> dict[str, float]:
        """The ids or paths of those that have ``word``, and how much it counts: in a title, to the letter."""
        with self._lock:
            entries = self._entries()
            found = [
                (self._name(at, entries[at]), entries[at], title)
                for at, title in self._index.places_of(word).items()
            ]
        return {
            name: (_IN_TITLE if in_title else 1) * (1 if word in entry.folded else _IN_OTHER_FORM)
            for name, entry, in_title in found
        }

    def closest(self, word: str) -> str | None:
        """The word that is spelt most like ``word``, where there is one."""
        with self._lock:
            self._entries()
            return self._index.closest(word)

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries())

    def all(self) -> list[T]:
        """All of them, oldest first where that is known."""
        with self._lock:
            return [self._shown(number, entry) for number, entry in self._entries().items()]

    def close(self) -> None:
        self._index.close()
        if self._meaning is not None:
            self._meaning.close()

    @abstractmethod
    def _name(self, number: int, entry: Entry) -> str:
        """What it is read by."""

    @abstractmethod
    def _shown(self, number: int, entry: Entry) -> T:
        """The text as others see it."""

    def _numbered(self, what: str, name: str) -> T:
        """The ``what`` with that id, such as ``n3``, or that number."""
        asked = name.strip().removeprefix(what[0])
        with self._lock:
            for number, entry in self._entries().items():
                if str(number) == asked:
                    return self._shown(number, entry)
        raise ToolError(f"no {what} with id {name}")

    def _entries(self) -> dict[int, Entry]:
        """The texts as they are now, by their numbers. The caller holds the lock."""
        if self._parsed.refresh():
            entries = sorted(self._parsed.items(), key=lambda entry: entry.sent)
            found = {self._number(entry.key): entry for entry in entries}
            for number in self._known.keys() - found.keys():
                self._index.remove(number)
                if self._meaning is not None:
                    self._meaning.remove(number)
            for number, entry in found.items():
                if entry != self._known.get(number):
                    self._index.put(number, f"{entry.title} {entry.sender}", entry.text)
                    if self._meaning is not None:
                        self._meaning.put(number, f"{entry.title}\n\n{entry.text}")
            self._known = found
        return self._known

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)
