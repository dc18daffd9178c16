"""Formats whose calls are read once their end was written: tags for each argument, and Gemma's functions."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from .arguments import TextReader, json_text, named, plain_text
from .events import ParserEvent, ToolCall, call_events
from .format import CallScanner, ToolCallFormat
from .json_scanner import TOOL_NAME

_SPACE: Final = " \t\r\n"


class BufferedCallScanner:
    """A push parser for one call that is parsed once its end was read; all events come then."""

    def __init__(self, index: int, *, start: str, end: str, parse: Callable[[str], ToolCall]) -> None:
        """``index`` is the call's index in its message.

        ``start`` is the text before the name, with which every call begins, and ``end`` ends the call; both
        may have whitespace before them. ``parse`` returns the call in the text before ``end``, and raises
        ValueError for other text.
        """
        self.done = False
        self.malformed = False
        self._index = index
        self._start = start
        self._end = end
        self._call_in = parse
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
        try:
            call = self._call_in(self._text[:found])
        except ValueError:
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
        rest = self._text[space + len(self._start) :].lstrip(_SPACE)
        return None if not rest or rest[0] == "_" or rest[0].isalpha() else len(self._text) - len(rest)


def _parse_tagged(text: str, *, head: re.Pattern[str], argument: re.Pattern[str]) -> ToolCall:
    """Return a call whose values are all strings: without the tool's schema their types are unknown.

    ``head`` matches the text up to the first argument, with a group ``name``; ``argument`` matches one
    argument with the groups ``key`` and ``value``. Whitespace between these is ignored.

    Raises:
        ValueError: the text is no such call.
    """
    found = head.match(text)
    if found is None:
        raise ValueError("no head")
    arguments: dict[str, Any] = {}
    position = found.end()
    while text[position:].strip(_SPACE):
        match = argument.match(text, position)
        if match is None or match["key"] in arguments:
            raise ValueError("no argument")
        arguments[match["key"]] = match["value"]
        position = match.end()
    return ToolCall(found["name"], arguments)


# GLM 4.5, 4.6: ``<tool_call>name`` with ``<arg_key>key</arg_key><arg_value>value</arg_value>`` per argument.
def _write_glm4(call: ToolCall) -> str:
    arguments = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{plain_text(value)}</arg_value>\n"
        for key, value in call.arguments.items()
    )
    return f"<tool_call>{call.name}\n{arguments}</tool_call>"


GLM4: Final = ToolCallFormat(
    name="glm4",
    scanner=functools.partial(
        BufferedCallScanner,
        start="",
        end="</tool_call>",
        parse=functools.partial(
            _parse_tagged,
            head=re.compile(rf"\s*{TOOL_NAME}\s*(?=<arg_key>|$)"),
            argument=re.compile(
                r"\s*<arg_key>(?P<key>[^<\n]+)</arg_key>\s*"
                r"<arg_value>(?P<value>(?:(?!</arg_value>).)*)</arg_value>",
                re.DOTALL,
            ),
        ),
    ),
    opening_tag="<tool_call>",
    template_markers=("<arg_key>",),
    untyped_arguments=True,
    write=_write_glm4,
)


# Qwen3-Coder: ``<tool_call><function=name><parameter=key>value</parameter></function></tool_call>``.
_PARAMETER = re.compile(
    r"\s*<parameter=(?P<key>[^>\n]+)>\n?(?P<value>(?:(?!</parameter>).)*?)\n?</parameter>", re.DOTALL
)


def _write_qwen_bare(call: ToolCall) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{plain_text(value)}\n</parameter>\n" for key, value in call.arguments.items()
    )
    return f"<function={call.name}>\n{parameters}</function>"


def _write_qwen(call: ToolCall) -> str:
    return f"<tool_call>\n{_write_qwen_bare(call)}\n</tool_call>"


def _qwen_scanner(start: str) -> Callable[[int], CallScanner]:
    """Create scanners of calls with ``start`` before the name."""
    head = re.compile(rf"\s*{start}{TOOL_NAME}>")
    parse = functools.partial(_parse_tagged, head=head, argument=_PARAMETER)
    return functools.partial(BufferedCallScanner, start=start, end="</function>", parse=parse)


QWEN3_CODER: Final = ToolCallFormat(
    name="qwen3_coder",
    scanner=_qwen_scanner("<function="),
    opening_tag="<tool_call>",
    closing="</tool_call>",
    template_markers=("<function=",),  # Qwen3-Coder, Qwen 3.5
    untyped_arguments=True,
    write=_write_qwen,
)

QWEN3_CODER_BARE: Final = ToolCallFormat(
    name="qwen3_coder_bare",
    scanner=_qwen_scanner(""),
    opening_tag="<function=",  # the model has left out the tag around it
    closing="</tool_call>",
    untyped_arguments=True,
    write=_write_qwen_bare,
)


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
            return named(self.items("}", lambda: (self.match(_KEY), self._value(depth + 1))))
        if self.take("["):
            return self.items("]", lambda: self._value(depth + 1))
        return json.loads(self.match(_SCALAR))


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
