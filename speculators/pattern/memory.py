"""What the pattern speculator has learned from the calls so far."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from .text import shape
from .values import key_of, type_of
from .weights import Weights, digest_of

Item = TypeVar("Item")
_MAX_PARAMETERS = 4096
_MAX_ITEMS = 64  # shapes, constants or digests of one parameter
_LONGEST_CONSTANT = 200
_MAX_CUES = 4096
_NO_PARAMETER = ""  # counts the calls without arguments
_SECRET = re.compile(
    r"pass(word|phrase|code)?$|secret|token|credential|api_?key|\bpin\b|cvv|ssn", re.IGNORECASE
)


@dataclass(slots=True)
class ParameterStats:
    """Counts of the arguments that one parameter of one tool has had.

    ``places`` are where the arguments were found, named as by :attr:`Source.place`. ``constants`` are the
    values that came more than once, as JSON. Of other values, and of parameters named like a secret, only
    digests are kept, in ``seen``.
    """

    shapes: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    constants: Counter[str] = field(default_factory=Counter)
    seen: Counter[int] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)

    def count(self, parameter: str, value: Any, places: Iterable[str] = ()) -> None:
        """Count one argument that was found in ``places``."""
        text = value if isinstance(value, str) else key_of(value)
        self.shapes[shape(text)] += 1
        self.types[type_of(value)] += 1
        key = key_of(value)
        digest = digest_of(key)
        self.seen[digest] += 1
        if self.seen[digest] > 1 and len(text) <= _LONGEST_CONSTANT and not _SECRET.search(parameter):
            self.constants[key] = self.seen[digest]
        self.places.update(places)
        for counts in (self.shapes, self.constants, self.places):
            _bound(counts)
        _bound(self.seen)


def _bound(counts: Counter[Item]) -> None:
    if len(counts) > 2 * _MAX_ITEMS:
        kept = dict(counts.most_common(_MAX_ITEMS))
        counts.clear()
        counts.update(kept)


class PatternMemory:
    """Weights, statistics of arguments, and which calls followed which cues. Bounded; not thread-safe.

    A cue is the digest of something that two conversations can have in common: a request, a call, a result.
    """

    def __init__(self, prior: Mapping[str, float]) -> None:
        """``prior`` has the initial weights of features."""
        self.weights = Weights(prior)
        self.parameters: OrderedDict[tuple[str, str], ParameterStats] = OrderedDict()
        self.followers: OrderedDict[int, Counter[int]] = OrderedDict()
        self.years: Counter[str] = Counter()
        self.changed_parameters: set[tuple[str, str]] = set()
        """Keys of ``parameters`` that changed since a caller last cleared this set."""
        self.changed_followers: set[int] = set()
        """Keys of ``followers`` that changed since a caller last cleared this set."""

    def parameter(self, tool: str, name: str) -> ParameterStats:
        """Return the statistics of a parameter; empty ones if it has had no argument yet."""
        return self.parameters.get((tool, name)) or ParameterStats()

    def has_called(self, tool: str, parameters: Iterable[str]) -> bool:
        """Whether a call of ``tool`` was counted; ``parameters`` are the names of its parameters."""
        return any((tool, name) in self.parameters for name in (_NO_PARAMETER, *parameters))

    def recall(self, cues: Sequence[int]) -> Counter[int]:
        """Return counts of the calls and arguments, as digests, that followed these cues before."""
        found: Counter[int] = Counter()
        for cue in cues:
            found.update(self.followers.get(cue, {}))
        return found

    def count(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        cues: Sequence[int],
        places: Mapping[str, Iterable[str]] = MappingProxyType({}),
    ) -> None:
        """Count one call that was made after these cues; ``places`` are those of its arguments."""
        for parameter, value in (arguments or {_NO_PARAMETER: None}).items():
            at = (tool, parameter)
            self.parameters.setdefault(at, ParameterStats()).count(
                parameter, value, places.get(parameter, ())
            )
            self.parameters.move_to_end(at)
            self.changed_parameters.add(at)
            if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-":
                self.years[value[:4]] += 1
        following = [call_digest(tool, arguments)]
        following += [argument_digest(tool, name, key_of(value)) for name, value in arguments.items()]
        for cue in cues:
            counts = self.followers.setdefault(cue, Counter())
            counts.update(following)
            _bound(counts)
            self.followers.move_to_end(cue)
            self.changed_followers.add(cue)
        while len(self.parameters) > _MAX_PARAMETERS:
            self.changed_parameters.discard(self.parameters.popitem(last=False)[0])
        while len(self.followers) > _MAX_CUES:
            self.changed_followers.discard(self.followers.popitem(last=False)[0])


def argument_digest(tool: str, parameter: str, key: str) -> int:
    """Return the digest of one argument; ``key`` is :func:`key_of` its value."""
    return digest_of(f"{tool}.{parameter} {key}")


def call_digest(tool: str, arguments: Mapping[str, Any] | None) -> int:
    """Return the digest of a call."""
    return digest_of(f"{tool} {key_of(arguments)}")
