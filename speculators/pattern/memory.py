"""What the pattern speculator has learned from the calls so far."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .text import shape
from .values import key_of, type_of
from .weights import Weights, digest_of

Item = TypeVar("Item")
_MAX_PLACES = 4096
_MAX_ITEMS = 64  # shapes or constants of one place
_LONGEST_CONSTANT = 200
_MAX_FOLLOWED = 4096
_SECRET = re.compile(
    r"pass(word|phrase|code)?$|secret|token|credential|api_?key|\bpin\b|cvv|ssn", re.IGNORECASE
)


@dataclass(slots=True)
class Place:
    """What the arguments of one parameter of one tool have been like.

    ``constants`` are the values that came more than once, as JSON, and how often they came. Of others, and
    of parameters that are named like a secret, only digests are kept, in ``seen``.
    """

    shapes: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    constants: Counter[str] = field(default_factory=Counter)
    seen: Counter[int] = field(default_factory=Counter)

    def remember(self, parameter: str, value: Any) -> None:
        """Count one argument."""
        text = value if isinstance(value, str) else key_of(value)
        self.shapes[shape(text)] += 1
        self.types[type_of(value)] += 1
        key = key_of(value)
        digest = digest_of(key)
        self.seen[digest] += 1
        if self.seen[digest] > 1 and len(text) <= _LONGEST_CONSTANT and not _SECRET.search(parameter):
            self.constants[key] = self.seen[digest]
        for counts in (self.shapes, self.constants):
            _bound(counts)
        _bound(self.seen)


def _bound(counts: Counter[Item]) -> None:
    if len(counts) > 2 * _MAX_ITEMS:
        kept = dict(counts.most_common(_MAX_ITEMS))
        counts.clear()
        counts.update(kept)


class Memory:
    """Weights, what arguments were like, and what came after what. Bounded; not thread-safe."""

    def __init__(self, prior: Mapping[str, float]) -> None:
        """Nothing is learned but the ``prior``."""
        self.weights = Weights(prior)
        self.places: OrderedDict[tuple[str, str], Place] = OrderedDict()
        self.followers: OrderedDict[int, Counter[int]] = OrderedDict()
        self.years: Counter[str] = Counter()
        self.changed_places: set[tuple[str, str]] = set()
        """Places that changed since someone emptied this."""
        self.changed_followers: set[int] = set()

    def place(self, tool: str, parameter: str) -> Place:
        """What is known of a parameter; an empty one if nothing is."""
        return self.places.get((tool, parameter)) or Place()

    def recall(self, cues: Sequence[int]) -> Counter[int]:
        """What came later in earlier conversations that had one of these cues, and how often."""
        found: Counter[int] = Counter()
        for cue in cues:
            found.update(self.followers.get(cue, {}))
        return found

    def remember(self, tool: str, arguments: Mapping[str, Any], cues: Sequence[int]) -> None:
        """Count one call of a conversation in which these cues came before."""
        for parameter, value in arguments.items():
            at = (tool, parameter)
            self.places.setdefault(at, Place()).remember(parameter, value)
            self.places.move_to_end(at)
            self.changed_places.add(at)
            if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-":
                self.years[value[:4]] += 1
        later = [call_digest(tool, arguments)]
        later += [argument_digest(tool, name, key_of(value)) for name, value in arguments.items()]
        for cue in cues:
            counts = self.followers.setdefault(cue, Counter())
            counts.update(later)
            _bound(counts)
            self.followers.move_to_end(cue)
            self.changed_followers.add(cue)
        while len(self.places) > _MAX_PLACES:
            self.changed_places.discard(self.places.popitem(last=False)[0])
        while len(self.followers) > _MAX_FOLLOWED:
            self.changed_followers.discard(self.followers.popitem(last=False)[0])


def argument_digest(tool: str, parameter: str, key: str) -> int:
    """A number that stands for an argument of a call."""
    return digest_of(f"{tool}.{parameter} {key}")


def call_digest(tool: str, arguments: Mapping[str, Any] | None) -> int:
    """A number that stands for a call."""
    return digest_of(f"{tool} {key_of(arguments)}")
