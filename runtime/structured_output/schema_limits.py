"""Keywords of JSON schemas whose work llguidance does not limit, and what may stand in them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from agentrt.finite import is_finite

MAX_REMAINDERS: Final = 10_000
"""Remainders that all ``multipleOf`` of a schema may leave. A grammar has a state for each."""
MAX_OPTIONAL: Final = 256
"""Optional properties of one object, each of which may come next. llguidance would give up at twice as many,
in the middle of an answer."""
_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples"}
    | {"title", "x-guidance"}
)
"""Keywords that allow every value."""
_TOO_MANY_REMAINDERS: Final = (
    f"multipleOf leaves more than {MAX_REMAINDERS} remainders; check the answer for it instead"
)

Multiple: TypeAlias = tuple[int, int]
"""A number in units of its last decimal, and how many decimals it has: 15 and 1 for 1.5."""


def unbounded_keyword(schema: Mapping[str, Any]) -> str | None:
    """Return which keyword in ``schema`` takes too much work, and why; None if none does."""
    values = ValueGroups(schema)
    multiples: list[tuple[Mapping[str, Any], Multiple]] = []
    combined = False
    for each in _objects(schema):
        optional = _optional(each)
        if optional > MAX_OPTIONAL:
            return f"properties has {optional} optional names, and an object may have {MAX_OPTIONAL}"
        multiple = each.get("multipleOf")
        if isinstance(multiple, (int, float)) and not isinstance(multiple, bool) and multiple:
            if not is_finite(multiple):
                return _TOO_MANY_REMAINDERS
            multiples.append((each, _scaled(multiple)))
        values.add(each)
        combined = combined or _combines(each)
    if sum(units for units, _ in {multiple for _, multiple in multiples}) > MAX_REMAINDERS:
        return _TOO_MANY_REMAINDERS
    together: defaultdict[int, set[Multiple]] = defaultdict(set)
    for each, multiple in multiples:
        together[0 if combined else values.group_of(each)].add(multiple)
    return _TOO_MANY_REMAINDERS if any(map(_leave_too_many, together.values())) else None


def _objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all objects in ``schema``: maps of names too, and data, since a reference may point into it."""
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield value
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value


def _optional(schema: Mapping[str, Any]) -> int:
    """Return how many properties of ``schema`` need not be there."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return 0
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return len(properties.keys() - names)


def _combines(schema: Mapping[str, Any]) -> bool:
    """Whether a value may have to satisfy several numbers in ``schema`` at once."""
    keywords = schema.keys() - _ANNOTATIONS
    references = keywords & {*REFERENCES, "anyOf", "oneOf"}
    return "allOf" in keywords or bool(references and len(keywords) > 1) or "patternProperties" in keywords


def _leave_too_many(multiples: Collection[Multiple]) -> bool:
    """Whether numbers that may be held to all of ``multiples`` leave too many remainders."""
    finest, common = max(decimals for _, decimals in multiples), 1
    for units, decimals in multiples:
        # No further than the limit: that of many long numbers takes seconds, in which no other thread runs.
        common = math.lcm(common, units * 10 ** (finest - decimals))
        if common > MAX_REMAINDERS:
            return True
    return False


def _scaled(multiple: float) -> Multiple:
    """Return a number in units of its last decimal."""
    if isinstance(multiple, int):
        return abs(multiple), 0
    _, digits, exponent = Decimal(repr(multiple)).as_tuple()
    assert isinstance(exponent, int)
    units = int("".join(map(str, digits))) * 10 ** max(0, exponent)
    return units, max(0, -exponent)


REFERENCES: Final = ("$ref", "$dynamicRef")


class ValueGroups:
    """The schemas in a schema, in groups of those that one value may have to satisfy."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        """``root`` is the whole schema, in which references are found. No schema was added yet."""
        self._root = root
        self._parents: dict[int, int] = {}

    def add(self, schema: Mapping[str, Any]) -> None:
        """Put ``schema`` into one group with its alternatives and what it refers to."""
        for other in self._of_its_value(schema):
            self._parents[self.group_of(schema)] = self.group_of(other)

    def group_of(self, schema: Mapping[str, Any]) -> int:
        """Return a number that is the same for all schemas of a group."""
        parents, place = self._parents, id(schema)
        while (parent := parents.get(place, place)) != place:
            parents[place] = place = parents.get(parent, parent)
        return place

    def _of_its_value(self, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for keyword in ("allOf", "anyOf", "oneOf"):
            others = schema.get(keyword)
            if isinstance(others, list):
                yield from (each for each in others if isinstance(each, Mapping))
        for keyword in REFERENCES:
            target = self._target(schema.get(keyword))
            if isinstance(target, Mapping):
                yield target

    def _target(self, reference: object) -> object:
        """Return what a reference such as ``#/$defs/price`` points to; None if it is not there."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        target: Any = self._root
        for name in unquote(reference).split("/")[1:]:
            if isinstance(target, Mapping):
                target = target.get(name.replace("~1", "/").replace("~0", "~"))
            elif isinstance(target, list) and name.isdecimal() and int(name[:9]) < len(target):
                target = target[int(name[:9])]
            else:
                return None
        return target
