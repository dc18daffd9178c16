"""Which of the user's texts a question is about: the one that has most of its words, rare ones first."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from .data import PersonalData
from .search import STOP_WORDS
from .texts import Texts

TextKind: TypeAlias = Literal["notes", "mail", "files"]
KINDS: Final[Sequence[TextKind]] = ("notes", "mail", "files")


@dataclass(frozen=True)
class TextTools:
    """The tools for the texts of a kind, and the argument of the one that reads."""

    search: str
    read: str
    argument: str


TEXT_TOOLS: Final[Mapping[TextKind, TextTools]] = {
    "notes": TextTools("search_notes", "read_note", "id"),
    "mail": TextTools("search_mail", "read_mail", "id"),
    "files": TextTools("search_files", "read_file", "path"),
}
_WORD: Final = re.compile(r"[^\W_]+")
_CONTRACTED: Final = re.compile(r"(?:n['\u2019]t|['\u2019](?:s|ve|d|ll|re|m))\b")
_GENERAL: Final = STOP_WORDS | frozenset(
    """
    actually again ago back already also always am among another anybody anyone anything anyway around ask
    asked be because been before being best both bring but came can cannot check could day days doing done
    down each either else email emailed emails ever every everything exactly fetch few file files first
    full further gave get gets getting give given go goes going gone got great guess had happen has having
    he hello help her here hers hey him his hour hours if into inside instead just keep kind kindly know
    last late later least less let like long look looking lot made mail mailed mails make many may maybe
    mean means meant message might mine minute minutes more most much must name need needs never new next
    no nobody none nor not note noted notes news nothing now number off often ok okay once one ones only onto
    open or other our out over own part perhaps person please pls put quite rather read really recall
    remember right said same saw see seem sent shall she should since so some somebody someone something
    sometimes somewhere soon sorry still such sure take tell than thank thanks their them then these they
    thing things think those though through time times today together told too took tomorrow two under
    until up us very via want wanted wants was way we well went were whatever whether which while whom
    whose why will wish with within without wonder would wrote written write year years yes yesterday yet
    you ive im dont cant didnt whats whos hows wheres whens lets thats theres came come arrived received
    yourself according recently till long good great nice morning evening arrival
    departure second third fourth fifth messages start starts begin begins end ends finish place held hold
    gonna
    """.split()  # noqa: SIM905
)
"""Words that say nothing about which text is meant."""
_MINUTES_OF_A_MEETING: Final = re.compile(r"\bthe minutes\b", re.IGNORECASE)
_NEAR: Final = 1.6
_UNKNOWN: Final = 0.5
"""The weight of a word that no text has: people ask in other words than they write."""
_MISSPELT: Final = 0.7
_MOST: Final = 0.7
"""Of the words: one of two is too little, also if no text has the other."""
_COMMON: Final = 3
"""Texts that have a word by which none is told from others."""
_SHORTEST_MISSPELT: Final = 5


@dataclass(frozen=True)
class Found:
    """A text, what reads it, and how much of the question's words it has."""

    kind: TextKind
    name: str
    weight: float
    coverage: float
    """0 to 1; a word in the title counts more."""
    share: float
    """The same, wherever the words are."""
    words: frozenset[str]
    """Those of these that it has as they are spelt."""
    rarest: int
    """How many texts have the rarest of these."""

    def is_sure(self, words: Sequence[str]) -> bool:
        """Return whether it has so much of the ``words`` of a question that it is what is meant."""
        return self.share >= _MOST or len(words) == 1

    def is_by_chance(self, words: Sequence[str]) -> bool:
        """Return whether it has one of several ``words`` alone, which others have, too."""
        return len(self.words) == 1 < len(words) and self.rarest >= _COMMON

    @property
    def call(self) -> tuple[str, Mapping[str, str]]:
        """The tool that reads it, with its arguments."""
        tools = TEXT_TOOLS[self.kind]
        return tools.read, {tools.argument: self.name}


def content_words(text: str) -> list[str]:
    """Return the words of ``text`` that say what it is about, each once."""
    words = _WORD.findall(_CONTRACTED.sub(" ", text.casefold()))
    said = {"minutes"} if _MINUTES_OF_A_MEETING.search(text) else set()
    return list(
        dict.fromkeys(word for word in words if word in said or (word not in _GENERAL and len(word) > 1))
    )


def retrieve(
    words: Sequence[str], data: PersonalData, kinds: Sequence[TextKind], near: Collection[str] = ()
) -> Found | None:
    """Return the text of the ``kinds`` that has most of ``words``; None if none has any.

    ``near`` has the ids and paths of texts that were read before, which are meant sooner than others.
    """
    places: Mapping[TextKind, Texts[Any]] = {"notes": data.notes, "mail": data.mail, "files": data.files}
    size = sum(map(len, places.values()))
    weights: dict[tuple[TextKind, str], float] = defaultdict(float)
    covered: dict[tuple[TextKind, str], float] = defaultdict(float)
    exact: dict[tuple[TextKind, str], dict[str, int]] = defaultdict(dict)
    total = 0.0
    for word in words:
        having, factor = _having(word, places), 1.0
        for place in having:
            exact[place][word] = len(having)
        if not having and len(word) >= _SHORTEST_MISSPELT:
            meant = {close for texts in places.values() if (close := texts.closest(word))}
            having, factor = (
                {place: counts for each in meant for place, counts in _having(each, places).items()},
                _MISSPELT,
            )
        if not having:
            total += _UNKNOWN * math.log1p(size)
            continue
        rarity = math.log1p(size / len(having)) * factor
        total += rarity
        for place, counts in having.items():
            covered[place] += rarity
            weights[place] += rarity * counts * (_NEAR if place[1] in near else 1)
    of_kinds = {place: weight for place, weight in weights.items() if place[0] in kinds}
    if not of_kinds:
        return None
    (kind, name), weight = max(of_kinds.items(), key=lambda each: each[1])
    has = exact[kind, name]
    coverage, share = min(1.0, weight / total), covered[kind, name] / total
    return Found(kind, name, weight, coverage, share, frozenset(has), min(has.values(), default=0))


def _having(word: str, places: Mapping[TextKind, Texts[Any]]) -> dict[tuple[TextKind, str], float]:
    """Return the texts that have ``word``, and how much it counts there."""
    return {
        (kind, name): counts for kind, texts in places.items() for name, counts in texts.weigh(word).items()
    }
