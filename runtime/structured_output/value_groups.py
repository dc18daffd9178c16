"""Which schemas in a JSON schema may hold for one value: llguidance makes one automaton of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

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
