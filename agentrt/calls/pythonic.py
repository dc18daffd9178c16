"""Llama 3.2 and 4: ``[name(key="value", other=[1, True]), …]`` as the whole message."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from .arguments import TextReader, json_text, named
from .events import ParserEvent, ToolCall, call_events
from .format import ToolCallFormat

_SPACE = " \t\r\n"
_MAX_DEPTH = 64
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_KEYWORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z]+")
_CONSTANTS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4}|.)", re.DOTALL
)
_JSON_ONLY = re.compile(r"\\\\|\\[bf]")  # an escaped backslash is read as one, so that what follows it is not
_PYTHON_ESCAPES = {r"\b": r"\x08", r"\f": r"\x0c"}
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": "", "0": "\0"}


class PythonicCallScanner:
    """A push parser for one call.

    Only keyword arguments with literal values make a call; anything else is text about code. The JSON of a
    value is known only when its literal is complete, so all events come with the closing parenthesis.
    """

    def __init__(self, index: int, *, in_list: bool = False, offers: Callable[[str], bool] = bool) -> None:
        """``index`` is the call's index in its message, and part of the events.

        ``in_list`` accepts the opening bracket of a list before the call. ``offers`` says which names a tool
        has: a call of another name is malformed.
        """
        self.done = False
        self.malformed = False
        self._index = index
        self._pieces: list[str] = []
        self._name = ""
        self._offers = offers
        self._state: Literal["start", "name", "arguments"] = "start"
        self._quote = ""
        self._escaped = False
        self._brackets: list[str] = []
        self._bracket_allowed = in_list

    def feed(self, text: str, position: int, end: int) -> tuple[int, list[ParserEvent]]:
        """Read ``text[position:end]``; return where reading stopped, and the events of what was read."""
        start = position
        while position < end and not self.done:
            if not self._accept(text[position]):
                self.malformed = True
                return position, []
            position += 1
        self._pieces.append(text[start:position])
        if not self.done:
            return position, []
        try:
            call = _parse("".join(self._pieces))
        except ValueError:
            self.malformed = True
            return position, []
        return position, call_events(self._index, call)

    def _accept(self, character: str) -> bool:
        if self._state == "start":
            if character == "[" and self._bracket_allowed:
                self._bracket_allowed = False
            elif character not in _SPACE:
                self._state, self._name = "name", character
                return bool(_NAME.fullmatch(character))
        elif self._state == "name":
            if character == "(":
                self._state = "arguments"
                self._brackets.append(")")
                return self._offers(self._name)
            self._name += character
            return bool(_NAME.fullmatch("a" + character))
        elif self._quote:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == self._quote:
                self._quote = ""
        elif character in "'\"":
            self._quote = character
        elif character in _CLOSING:
            self._brackets.append(_CLOSING[character])
            return len(self._brackets) <= _MAX_DEPTH
        elif character in ")]}":
            if self._brackets.pop() != character:
                return False
            self.done = not self._brackets
        return True


def _parse(text: str) -> ToolCall:
    """Parse a whole call.

    Raises:
        ValueError: the text is not a call.
    """
    name = _NAME.match(text.lstrip(_SPACE + "["))
    assert name  # the scanner has read one
    reader = _LiteralReader(text, text.index("(") + 1)
    return ToolCall(name.group(), named(reader.items(")", reader.keyword)))


class _LiteralReader(TextReader):
    """Recursive descent over Python literals, whose depth the scanner has limited.

    :func:`ast.literal_eval` is not used because it prints SyntaxWarnings for invalid escapes in model text.
    """

    def keyword(self) -> tuple[str, Any]:
        name = self.match(_KEYWORD)
        if not self.take("="):
            raise ValueError(name)
        return name, self.literal()

    def literal(self) -> Any:
        if self.take("["):
            return self.items("]", self.literal)
        if self.take("("):
            return self.items(")", self.literal)
        if self.take("{"):
            return dict(self.items("}", self._item))
        if self.at("'") or self.at('"'):
            return self._string()
        if _WORD.match(self._text, self._position):
            word = self.match(_WORD)
            if word not in _CONSTANTS:
                raise ValueError(word)
            return _CONSTANTS[word]
        number = self.match(_NUMBER)
        if number.lstrip("+-").isdigit():
            return int(number)
        value = float(number)
        if value in (float("inf"), float("-inf")):
            raise ValueError(number)
        return value

    def _item(self) -> tuple[str, Any]:
        key = self.literal()
        if not isinstance(key, str) or not self.take(":"):
            raise ValueError("JSON objects have string keys")
        return key, self.literal()

    def _string(self) -> str:
        quote = self._text[self._position]
        body = self.match(_BODY[quote])[1:-1]
        return _ESCAPE.sub(_unescape, body)


_BODY = {
    "'": re.compile(r"'[^'\\\n]*(?:\\.[^'\\\n]*)*'", re.DOTALL),
    '"': re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"', re.DOTALL),
}


def _unescape(match: re.Match[str]) -> str:
    escape = match.group(1)
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _SIMPLE_ESCAPES.get(escape, match.group())


def write_pythonic(call: ToolCall) -> str | None:
    """Return a list of this one call; None if a name is no identifier of the format."""
    if not _NAME.fullmatch(call.name) or not all(map(_KEYWORD.fullmatch, call.arguments)):
        return None
    arguments = [f"{name}={_literal(value)}" for name, value in call.arguments.items()]
    return f"[{call.name}({', '.join(arguments)})]"


def _literal(value: Any) -> str:
    """Return a JSON value as a Python literal, its texts in double quotes."""
    if isinstance(value, Mapping):
        items = [f"{_literal(key)}: {_literal(item)}" for key, item in value.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        text = json_text(value)
        return _JSON_ONLY.sub(lambda escape: _PYTHON_ESCAPES.get(escape.group(), escape.group()), text)
    return repr(value)


PYTHONIC: Final = ToolCallFormat(
    name="pythonic",
    scanner=PythonicCallScanner,
    message_opening="[",
    separator=",",
    closing="]",
    template_markers=("[func_name1(params_name1=params_value1",),  # Llama 3.2 pythonic, Llama 4
    write=write_pythonic,
    # No shape: a bracket may also begin ordinary text.
)


# LFM2: ``<|tool_call_start|>[name(key="value")]<|tool_call_end|>`` anywhere in the text.
def _write_lfm2(call: ToolCall) -> str | None:
    written = write_pythonic(call)
    return None if written is None else f"<|tool_call_start|>{written}<|tool_call_end|>"


LFM2: Final = ToolCallFormat(
    name="lfm2",
    scanner=functools.partial(PythonicCallScanner, in_list=True),
    opening_tag="<|tool_call_start|>",
    separator=",",
    closing="]<|tool_call_end|>",
    inner_markup=("<|tool_call_end|>",),
    template_markers=("<|tool_call_start|>",),
    write=_write_lfm2,
)
