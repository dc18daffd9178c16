"""Tool outputs: parsed as JSON, cut JSON, Python literals or plain text, and their leaves."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .text import name_words

_MAX_DEPTH = 64
_MAX_WALKED = 6  # levels of which leaves are taken
_JSON_START = re.compile(r"\s*[\[{]")


@functools.lru_cache(256)  # the history of the next turn repeats that of this one
def parse_tool_output(text: str) -> Any:
    """Parse a tool's output: JSON, JSON that was cut off, or a Python literal; return other text as it is."""
    if not _JSON_START.match(text):
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return _parse_cut(text)


def _parse_cut(text: str) -> Any:
    """Parse as much of JSON without its end as possible; return the text itself if nothing can be parsed."""
    ends = _cut_points(text)
    for end, closing in reversed(ends[-8:]):
        try:
            return json.loads(text[:end] + closing) or text
        except (ValueError, RecursionError):
            continue
    return text


def _cut_points(text: str) -> list[tuple[int, str]]:
    """Return the (position, closing brackets) where unfinished JSON can be cut and closed.

    Empty for text that is not JSON: brackets that do not match or nest too deeply, or an end that is there.
    """
    closers: list[str] = []
    ends: list[tuple[int, str]] = []
    for position, character in _outside_strings(text):
        if character in "[{":
            closers.append("]" if character == "[" else "}")
            if len(closers) > _MAX_DEPTH:
                return []
            ends.append((position + 1, "".join(reversed(closers))))
        elif character in "]}":
            if not closers or closers.pop() != character:
                return []
            ends.append((position + 1, "".join(reversed(closers))))
        elif character == ",":
            ends.append((position, "".join(reversed(closers))))
    return ends if closers else []


def _outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, character) for the characters outside string literals."""
    in_string = escaped = False
    for position, character in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        else:
            yield position, character


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
    if depth > _MAX_WALKED:
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
