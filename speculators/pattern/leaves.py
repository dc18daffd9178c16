"""The leaves of parsed JSON, with where and beside what each was found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .text import name_words

_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf, and while walking, one node.

    ``path`` is where it is, with list positions left out; ``name`` the words of the field's name; ``record``
    identifies the object or list item it belongs to; ``position`` is its index in the list it is in.
    """

    value: Any
    path: str
    name: tuple[str, ...]
    record: tuple[Any, ...]
    position: int | None = None


def leaves(node: Leaf, depth: int = 0) -> Iterator[Leaf]:
    """Yield the leaves below a node; lists of up to 20 scalars are leaves too. JSON in strings is parsed."""
    value = node.value
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield from _leaves_of_object(node, value, depth)
    elif isinstance(value, list):
        yield from _leaves_of_list(node, value, depth)
    elif isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            yield node
        else:
            yield from leaves(replace(node, value=parsed), depth + 1)
    elif value is not None:
        yield node


def _leaves_of_object(node: Leaf, value: dict[str, Any], depth: int) -> Iterator[Leaf]:
    is_table = len(value) > 1 and _is_table(value)
    for key, inner in value.items():
        if is_table:
            yield Leaf(key, f"{node.path}{{key}}", node.name, (*node.record, key))
        path = f"{node.path}{{}}" if is_table else f"{node.path}.{key}"
        name = node.name if is_table else name_words(str(key))
        record = (*node.record, key) if isinstance(inner, (dict, list)) else node.record
        yield from leaves(Leaf(inner, path, name, record, node.position), depth + 1)


def _leaves_of_list(node: Leaf, value: list[Any], depth: int) -> Iterator[Leaf]:
    if value and all(isinstance(each, (str, int, float)) for each in value) and len(value) <= 20:
        yield Leaf(value, f"{node.path}[*]", node.name, node.record)
    for index, inner in enumerate(value):
        record = (*node.record, index) if isinstance(inner, (dict, list)) else node.record
        yield from leaves(Leaf(inner, f"{node.path}[]", node.name, record, index), depth + 1)


def _is_table(value: dict[str, Any]) -> bool:
    """Whether an object's keys are data: its values are objects that have fields in common."""
    forms = [frozenset(inner) for inner in value.values() if isinstance(inner, dict)]
    return len(forms) == len(value) and bool(frozenset.intersection(*forms))
