"""Keywords of JSON schemas whose work llguidance does not limit, and what may stand in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

MAX_REMAINDERS: Final = 10_000
"""Remainders that all ``multipleOf`` of a schema may leave. A grammar has a state for each."""
MAX_OPTIONAL: Final = 256
"""Optional properties of one object, each of which may come next. llguidance would give up at twice as many,
in the middle of an answer."""
_DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose values are no schemas."""
_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples"}
    | {"title", "x-guidance"}
)
"""Keywords that allow every value."""


def unbounded_keyword(schema: Mapping[str, Any]) -> str | None:
    """Return which keyword in ``schema`` takes too much work, and why; None if none does."""
    multiples: list[float] = []
    combined = False
    for each in _objects(schema):
        optional = _optional(each)
        if optional > MAX_OPTIONAL:
            return f"properties has {optional} optional names, and an object may have {MAX_OPTIONAL}"
        if isinstance(each.get("multipleOf"), (int, float)):
            multiples.append(each["multipleOf"])
        combined = combined or _combines(each)
    if not all(map(math.isfinite, multiples)) or _remainders(multiples, combined) > MAX_REMAINDERS:
        return f"multipleOf leaves more than {MAX_REMAINDERS} remainders; check the answer for it instead"
    return None


def _objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all objects in ``schema`` but data. Some are no schemas, such as the map of properties."""
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield value
            waiting += [item for key, item in value.items() if key not in _DATA]
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
    references = keywords & {"$ref", "$dynamicRef", "anyOf", "oneOf"}
    return "allOf" in keywords or bool(references and len(keywords) > 1) or "patternProperties" in keywords


def _remainders(multiples: Sequence[float], combined: bool) -> int:
    """Return how many remainders numbers leave, each by one of ``multiples``, or by all ``combined``."""
    scaled = {_scaled(multiple) for multiple in multiples}
    apart = sum(units for units, _ in scaled)
    if not combined:
        return apart
    finest = max((decimals for _, decimals in scaled), default=0)
    return max(apart, math.lcm(*(units * 10 ** (finest - decimals) for units, decimals in scaled)))


def _scaled(multiple: float) -> tuple[int, int]:
    """Return a number as an integer and how many decimals it has: 15 and 1 for 1.5."""
    if isinstance(multiple, int):
        return abs(multiple), 0
    _, digits, exponent = Decimal(repr(multiple)).as_tuple()
    assert isinstance(exponent, int)
    units = int("".join(map(str, digits))) * 10 ** max(0, exponent)
    return units, max(0, -exponent)
