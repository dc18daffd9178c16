"""The scanners of calls with JSON arguments: ``{"name": …, "arguments": {…}}``, or a name before them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final

from .arguments import load_json
from .events import CallArgumentsDelta, CallFinished, CallStarted, ParserEvent, ToolCall

_SPACE = " \t\r\n"
_ARGUMENT_KEYS = ("arguments", "parameters")
_MAX_DEPTH = 64
_IN_STRING = re.compile(r'[^"\\\x00-\x1f]+')
_IN_CONTAINER = re.compile(r'[^"{}\[\]]+')
_IN_SCALAR = re.compile(r"[-+.0-9a-zA-Z]+")
_MAX_HEAD: Final = 256
_BEFORE_TAIL: Final = " \t\r\n`"  # some formats close a code fence before the tail

TOOL_NAME: Final = r"(?P<name>[A-Za-z_][\w.\-]*)"
"""Matches a tool's name in the ``head`` of a format."""


class MalformedCallError(Exception):
    """The character at ``position`` cannot be part of a call."""

    def __init__(self, position: int) -> None:
        """``position`` is where reading stops."""
        self.position = position


class JsonCallScanner:
    """A push parser for one call object.

    Feed it until it is :attr:`done` or :attr:`malformed`. ``name`` and ``arguments`` (or ``parameters``) may
    come in either order, and other keys are ignored. The arguments may also be a string that contains the
    JSON object, as some models write them, and the call's own braces may be doubled, as the chat template of
    Qwen2.5-Coder shows them.
    """

    def __init__(
        self,
        index: int,
        *,
        before: str = "",
        other_keys: Collection[str] | None = None,
        offers: Callable[[str], bool] = bool,
    ) -> None:
        """``index`` is the call's index in its message, and part of the events.

        The characters of ``before`` may precede the call, such as the bracket of an array. ``other_keys`` are
        the only further keys that a call may have; None allows any. ``offers`` says which names a tool has: a
        call of another name is malformed.
        """
        self.done = False
        self.malformed = False
        self._index = index
        self._before = _SPACE + before
        self._other_keys = other_keys
        self._offers = offers
        self._step = self._open
        self._key = ""
        self._value: list[str] = []
        self._in_string = False
        self._escaped = False
        self._brackets: list[str] = []
        self._name: str | None = None
        self._arguments: dict[str, Any] | None = None
        self._doubled = False
        self._seen: set[str] = set()
        self._unsent: list[str] = []
        self._started = False
        self._events: list[ParserEvent] = []

    def feed(self, text: str, position: int, end: int) -> tuple[int, list[ParserEvent]]:
        """Read ``text[position:end]``; return where reading stopped, and the events of what was read.

        Reading stops early after the closing brace of the call, or before the first character that cannot be
        part of one.
        """
        self._events = []
        try:
            while position < end and not self.done:
                position = self._step(text, position, end)
        except MalformedCallError as error:
            self.malformed = True
            position = error.position
        self._send_arguments()
        return position, self._events

    # One method per state. Each reads at least one character, or switches to a state that does.

    def _open(self, text: str, position: int, end: int) -> int:
        if text[position] in self._before:
            return position + 1
        if text[position] != "{":
            raise MalformedCallError(position)
        self._step = self._key_or_close
        return position + 1

    def _key_or_close(self, text: str, position: int, end: int) -> int:
        if text[position] == "}" and not self._seen:
            raise MalformedCallError(position)  # an empty object names no tool
        if text[position] == "{" and not self._doubled:
            self._doubled = True
            return position + 1
        return self._key_start(text, position, end)

    def _key_start(self, text: str, position: int, end: int) -> int:
        if text[position] in _SPACE:
            return position + 1
        if text[position] != '"':
            raise MalformedCallError(position)
        self._value = ['"']
        self._in_string = True
        self._step = self._key_text
        return position + 1

    def _key_text(self, text: str, position: int, end: int) -> int:
        position = self._string(text, position, end)
        if not self._in_string:
            self._key = self._load("".join(self._value), position)
            if self._key in _ARGUMENT_KEYS:
                self._key = "arguments"
            others = self._other_keys
            allowed = others is None or self._key in ("name", "arguments") or self._key in others
            if self._key in self._seen or not allowed:
                raise MalformedCallError(position)
            self._seen.add(self._key)
            self._step = self._colon
        return position

    def _colon(self, text: str, position: int, end: int) -> int:
        if text[position] in _SPACE:
            return position + 1
        if text[position] != ":":
            raise MalformedCallError(position)
        self._step = self._value_start
        return position + 1

    def _value_start(self, text: str, position: int, end: int) -> int:
        character = text[position]
        if character in _SPACE:
            return position + 1
        self._value = []
        if character == '"':
            self._value.append(character)
            self._in_string = True
            self._step = self._string_value
            return position + 1
        if self._key == "name":
            raise MalformedCallError(position)
        if character in "{[":
            if self._key == "arguments":
                if character == "[":
                    raise MalformedCallError(position)
                self._start()
            self._step = self._container_value
            return position
        if self._key == "arguments" or not _IN_SCALAR.match(character):
            raise MalformedCallError(position)
        self._step = self._scalar_value
        return position

    def _string_value(self, text: str, position: int, end: int) -> int:
        position = self._string(text, position, end)
        if not self._in_string:
            self._finish_value(self._load("".join(self._value), position), position)
        return position

    def _scalar_value(self, text: str, position: int, end: int) -> int:
        match = _IN_SCALAR.match(text, position, end)
        if match:
            self._value.append(match.group())
            return match.end()
        self._finish_value(self._load("".join(self._value), position), position)
        return position

    def _container_value(self, text: str, position: int, end: int) -> int:
        start = position
        try:
            position = self._container(text, position, end)
        except MalformedCallError as error:
            self._keep(text[start : error.position])
            raise
        self._keep(text[start:position])
        if not self._brackets:
            self._finish_value(self._load("".join(self._value), position), position)
        return position

    def _comma_or_close(self, text: str, position: int, end: int) -> int:
        character = text[position]
        if character == ",":
            self._step = self._key_start
        elif character == "}":
            if self._name is None or self._arguments is None:
                raise MalformedCallError(position)
            if self._doubled:
                self._step = self._second_brace
            else:
                self._finish_call(self._name, self._arguments)
        elif character not in _SPACE:
            raise MalformedCallError(position)
        return position + 1

    def _second_brace(self, text: str, position: int, end: int) -> int:
        if text[position] != "}":
            raise MalformedCallError(position)
        assert self._name is not None
        assert self._arguments is not None
        self._finish_call(self._name, self._arguments)
        return position + 1

    # Shared by the states.

    def _string(self, text: str, position: int, end: int) -> int:
        """Read a string up to its closing quote, or to ``end``, into the current value."""
        start = position
        position = self._skip_string(text, position, end)
        self._value.append(text[start:position])
        return position

    def _skip_string(self, text: str, position: int, end: int) -> int:
        while position < end and self._in_string:
            if self._escaped:  # an escape may be split between two feeds
                self._escaped = False
                position += 1
                continue
            match = _IN_STRING.match(text, position, end)
            if match:
                position = match.end()
                continue
            character = text[position]
            if character == "\\":
                self._escaped = True
            elif character == '"':
                self._in_string = False
            else:
                raise MalformedCallError(position)  # JSON strings contain no raw control characters
            position += 1
        return position

    def _container(self, text: str, position: int, end: int) -> int:
        """Return the position after the bracket that closes the first one, or ``end``."""
        while position < end:
            if self._in_string:
                position = self._skip_string(text, position, end)
                continue
            match = _IN_CONTAINER.match(text, position, end)
            if match:
                position = match.end()
                continue
            character = text[position]
            if character == '"':
                self._in_string = True
            elif character in "{[":
                if len(self._brackets) == _MAX_DEPTH:
                    raise MalformedCallError(position)
                self._brackets.append("}" if character == "{" else "]")
            elif self._brackets.pop() != character:
                raise MalformedCallError(position)
            position += 1
            if not self._brackets:
                break
        return position

    def _keep(self, piece: str) -> None:
        self._value.append(piece)
        if self._key == "arguments":
            self._unsent.append(piece)

    def _load(self, text: str, position: int) -> Any:
        try:
            return load_json(text)
        except ValueError:
            raise MalformedCallError(position) from None

    def _finish_value(self, value: Any, position: int) -> None:
        if self._key == "name":
            if not self._offers(value):
                raise MalformedCallError(position)
            self._name = value
            if self._unsent:
                self._start()
        elif self._key == "arguments":
            if isinstance(value, str):
                self._unsent = [value]
                value = self._load(value, position)
                if not isinstance(value, dict):
                    raise MalformedCallError(position)
                self._start()
            self._arguments = value
        self._step = self._comma_or_close

    def _finish_call(self, name: str, arguments: dict[str, Any]) -> None:
        self._send_arguments()
        self._events.append(CallFinished(self._index, ToolCall(name, arguments)))
        self.done = True

    def _start(self) -> None:
        """Emit CallStarted when the name is known and the arguments have begun."""
        if self._name is not None and not self._started:
            self._started = True
            self._events.append(CallStarted(self._index, self._name))

    def _send_arguments(self) -> None:
        if self._started and self._unsent:
            self._events.append(CallArgumentsDelta(self._index, "".join(self._unsent)))
            self._unsent = []


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
