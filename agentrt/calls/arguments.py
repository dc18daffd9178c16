"""Texts and values of calls: read, parsed, written and copied."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from ..finite import parse_problem
from .events import ToolCall

T = TypeVar("T")


class TextReader:
    """A position in a text, for recursive descent; whitespace is skipped before marks."""

    def __init__(self, text: str, position: int = 0) -> None:
        """Begin to read at ``position``."""
        self._text = text
        self._position = position

    def at(self, mark: str) -> bool:
        """Whether ``mark`` is next."""
        while self._position < len(self._text) and self._text[self._position] in " \t\r\n":
            self._position += 1
        return self._text.startswith(mark, self._position)

    def take(self, mark: str) -> bool:
        """Read ``mark`` if it is next; return whether it was."""
        found = self.at(mark)
        self._position += found * len(mark)
        return found

    def match(self, pattern: re.Pattern[str]) -> str:
        """Read what ``pattern`` matches; return its first group, or all if it has none.

        Raises:
            ValueError: something else is next.
        """
        self.at("")
        match = pattern.match(self._text, self._position)
        if match is None:
            raise ValueError(pattern.pattern)
        self._position = match.end()
        return match[1] if pattern.groups else match[0]

    def items(self, closing: str, read: Callable[[], T]) -> list[T]:
        """Read items with ``read``, and a comma behind each but the last, up to ``closing``.

        Raises:
            ValueError: something else is next.
        """
        items = []
        while not self.take(closing):
            items.append(read())
            if not self.take(",") and not self.at(closing):
                raise ValueError(closing)
        return items


def named(pairs: list[tuple[str, T]]) -> dict[str, T]:
    """Return items by their names.

    Raises:
        ValueError: two have one name.
    """
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def load_json(text: str) -> Any:
    """Parse strict JSON.

    Raises:
        ValueError: not JSON, NaN or an infinity, an integer of thousands of digits, or nested more deeply
            than Python's stack allows.
    """
    try:
        return json.loads(text, parse_constant=_reject, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(parse_problem(error)) from None


def parse_arguments(text: str | None) -> dict[str, Any]:
    """Parse the arguments of a call; None and empty text, which some servers write, are no arguments.

    Raises:
        ValueError: not a JSON object of finite values.
    """
    if text is None or text == "":
        return {}
    arguments = load_json(text)
    if not isinstance(arguments, dict):
        raise ValueError("not a JSON object")
    return arguments


def json_text(value: Any) -> str:
    """Return a JSON value as models write it: with a space after ``,`` and ``:``, not limited to ASCII."""
    return json.dumps(value, ensure_ascii=False)


def json_call(call: ToolCall) -> str:
    """Return a call as ``{"name": …, "arguments": …}``."""
    return json_text({"name": call.name, "arguments": dict(call.arguments)})


def plain_text(value: Any) -> str:
    """Return a value of a format whose arguments are plain texts: a string as it is, any other as JSON."""
    return value if isinstance(value, str) else json_text(value)


def copied_json(value: Any) -> Any:
    """Copy the objects and arrays in a JSON value; other values stay the same objects.

    Code of the user may change what it is given. Three times as fast as :func:`copy.deepcopy`. A tuple
    becomes a list.
    """
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) is str else copied_json(item) for key, item in value.items()}
    return [copied_json(item) for item in value] if kind is list or kind is tuple else value


def copied_call(call: ToolCall) -> ToolCall:
    """Return a call with a copy of the arguments."""
    return ToolCall(call.name, copied_json(call.arguments), call.id)


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value
