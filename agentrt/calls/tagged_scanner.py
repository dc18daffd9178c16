"""The scanner of calls whose arguments stand in tags of their own, each with the value as plain text."""

from __future__ import annotations

import re
from typing import Any, Final

from .events import ParserEvent, ToolCall, call_events

_SPACE: Final = " \t\r\n"


class TaggedCallScanner:
    """A push parser for one call of the form head, arguments, ``end``.

    Every value is a string: without the tool's schema its type is unknown. The events come with the end.
    """

    def __init__(
        self, index: int, *, start: str, head: re.Pattern[str], argument: re.Pattern[str], end: str
    ) -> None:
        """``index`` is the call's index in its message.

        ``start`` is the text before the name, with which every call begins, after whitespace. ``head``
        matches the text up to the first argument, with a group ``name``; ``argument`` matches one argument
        with the groups ``key`` and ``value``. Whitespace between these is ignored. ``end`` ends the call.
        """
        self.done = False
        self.malformed = False
        self._index = index
        self._start = start
        self._head = head
        self._argument = argument
        self._end = end
        self._text = ""

    def feed(self, text: str, position: int, end: int) -> tuple[int, list[ParserEvent]]:
        """Read ``text[position:end]``; return where reading stopped, and the events of what was read."""
        before = len(self._text)
        self._text += text[position:end]
        wrong = self._first_wrong_character()
        if wrong is not None:
            self.malformed = True
            return position + wrong - before, []
        found = self._text.find(self._end, max(0, before - len(self._end)))
        if found < 0:
            return end, []
        stopped = position + found + len(self._end) - before
        call = self._parse(self._text[:found])
        if call is None:
            self.malformed = True
            return stopped, []
        self.done = True
        return stopped, call_events(self._index, call)

    def _first_wrong_character(self) -> int | None:
        """Return where the text differs from whitespace, the start and the first letter of a name."""
        space = len(self._text) - len(self._text.lstrip(_SPACE))
        for offset, expected in enumerate(self._start, space):
            if offset == len(self._text):
                return None
            if self._text[offset] != expected:
                return offset
        name = self._text[space + len(self._start) :][:1]
        return None if not name or name == "_" or name.isalpha() else space + len(self._start)

    def _parse(self, text: str) -> ToolCall | None:
        head = self._head.match(text)
        if head is None:
            return None
        arguments: dict[str, Any] = {}
        position = head.end()
        while text[position:].strip(_SPACE):
            match = self._argument.match(text, position)
            if match is None or match["key"] in arguments:
                return None
            arguments[match["key"]] = match["value"]
            position = match.end()
        return ToolCall(head["name"], arguments)
