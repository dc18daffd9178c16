"""Gemma's functions: ``call:name{key:<escape>text<escape>,other:3}`` between two tags."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from .arguments import TextReader, json_text
from .events import ToolCall
from .format import CallScanner, ToolCallFormat
from .tagged_formats import BufferedCallScanner

_SPACE: Final = " \t\r\n"
_NAME: Final = re.compile(r"\s*call:\s*([A-Za-z_][\w.\-]*)\s*(?=\{)")
_KEY: Final = re.compile(r'\s*"?([^\s:"{}\[\],]+)"?\s*:')
_SCALAR: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)")
_MAX_DEPTH: Final = 64


def _scanner(quote: str, end: str) -> Callable[[int], CallScanner]:
    """Create scanners of calls whose texts ``quote`` encloses, up to ``end``."""
    return functools.partial(
        BufferedCallScanner, start="call:", end=end, parse=lambda text: _Reader(text, quote).call()
    )


class _Reader(TextReader):
    """Recursive descent over the text of one call. Every method raises ValueError for other text."""

    def __init__(self, text: str, quote: str) -> None:
        super().__init__(text)
        self._quote = quote

    def call(self) -> ToolCall:
        name = self.match(_NAME)
        arguments = self._value(0)
        if not isinstance(arguments, dict) or self._text[self._position :].strip(_SPACE):
            raise ValueError("text after the arguments")
        return ToolCall(name, arguments)

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        if self.take(self._quote):
            end = self._text.find(self._quote, self._position)
            if end < 0:
                raise ValueError("a text without an end")
            start, self._position = self._position, end + len(self._quote)
            return self._text[start:end]
        if self.take("{"):
            return self._mapping(depth)
        if self.take("["):
            items: list[Any] = []
            while not self.take("]"):
                items.append(self._value(depth + 1))
                self.comma_or("]")
            return items
        return json.loads(self.match(_SCALAR))

    def _mapping(self, depth: int) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not self.take("}"):
            key = self.match(_KEY)
            if key in items:
                raise ValueError(key)
            items[key] = self._value(depth + 1)
            self.comma_or("}")
        return items


def _write(call: ToolCall, *, start: str, quote: str, end: str) -> str:
    return f"{start}call:{call.name}{_literal(dict(call.arguments), quote)}{end}"


def _literal(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_literal(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_literal(item, quote) for item in value) + "]"
    return json_text(value)


FUNCTION_GEMMA: Final = ToolCallFormat(
    name="function_gemma",
    scanner=_scanner("<escape>", "<end_function_call>"),
    opening_tag="<start_function_call>",
    inner_markup=("<escape>", "<end_function_call>"),
    write=functools.partial(
        _write, start="<start_function_call>", quote="<escape>", end="<end_function_call>"
    ),
    template_markers=("<start_function_call>",),
)

GEMMA4: Final = ToolCallFormat(
    name="gemma4",
    scanner=_scanner('<|"|>', "<tool_call|>"),
    opening_tag="<|tool_call>",
    inner_markup=('<|"|>', "<tool_call|>"),
    write=functools.partial(_write, start="<|tool_call>", quote='<|"|>', end="<tool_call|>"),
    template_markers=("<|tool_call>",),
)
