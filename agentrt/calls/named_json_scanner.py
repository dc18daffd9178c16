"""The scanner of calls whose name stands before the JSON object of their arguments."""

from __future__ import annotations

import re
from typing import Any, Final

from .json_scanner import JsonCallScanner, MalformedCallError

_MAX_HEAD: Final = 256
_BEFORE_TAIL: Final = " \t\r\n`"  # some formats close a code fence before the tail

TOOL_NAME: Final = r"(?P<name>[A-Za-z_][\w.\-]*)"
"""Matches a tool's name in the ``head`` of a format."""


class NamedJsonScanner(JsonCallScanner):
    """A push parser for one call of the form ``head``, JSON object, ``tail``."""

    def __init__(self, index: int, *, head: re.Pattern[str], tail: str = "") -> None:
        """``index`` is the call's index in its message.

        ``head`` matches all text before the arguments' opening brace and has a group ``name``. ``tail`` is
        the text after the arguments, before which whitespace and backticks are ignored.
        """
        super().__init__(index)
        self._head = head
        self._tail = tail
        self._read = ""
        self._step = self._read_head

    def _read_head(self, text: str, position: int, end: int) -> int:
        brace = text.find("{", position, end)
        stop = end if brace < 0 else brace
        if len(self._read) + stop - position > _MAX_HEAD:
            raise MalformedCallError(position + _MAX_HEAD - len(self._read))
        self._read += text[position:stop]
        if brace >= 0:
            match = self._head.fullmatch(self._read)
            if match is None:
                raise MalformedCallError(stop)
            self._name, self._key, self._read = match["name"], "arguments", ""
            self._step = self._value_start
        return stop

    def _finish_value(self, value: Any, position: int) -> None:
        super()._finish_value(value, position)
        self._step = self._read_tail
        if not self._tail:
            self._finish_named()

    def _read_tail(self, text: str, position: int, end: int) -> int:
        character = text[position]
        if self._read or character not in _BEFORE_TAIL:
            self._read += character
            if not self._tail.startswith(self._read):
                raise MalformedCallError(position)
            if self._read == self._tail:
                self._finish_named()
        return position + 1

    def _finish_named(self) -> None:
        assert self._name is not None
        assert self._arguments is not None
        self._finish_call(self._name, self._arguments)
