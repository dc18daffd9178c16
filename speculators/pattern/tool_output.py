"""Parsing of tool outputs: JSON, cut JSON, Python literals or plain text."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator
from typing import Any

_MAX_DEPTH = 64
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
