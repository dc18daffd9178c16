"""Formats whose calls are a name before a JSON object of arguments, and their scanner."""

from __future__ import annotations

import functools
import re
from typing import Any, Final

from .arguments import json_text
from .events import ToolCall
from .format import CallShape, ToolCallFormat
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


# Llama 3.1's custom tools: ``<function=name>{"key": "value"}</function>`` anywhere in the text.
FUNCTION_TAG: Final = ToolCallFormat(
    name="function_tag",
    scanner=functools.partial(NamedJsonScanner, head=re.compile(rf"{TOOL_NAME}>\s*"), tail="</function>"),
    opening_tag="<function=",
    write=lambda call: f"<function={call.name}>{json_text(dict(call.arguments))}</function>",
)

# Mistral Small 3.2, Magistral, Devstral: ``[TOOL_CALLS]name[ARGS]{…}``.
MISTRAL_ARGS: Final = ToolCallFormat(
    name="mistral_args",
    scanner=functools.partial(
        NamedJsonScanner, head=re.compile(rf"\s*{TOOL_NAME}(?:\[CALL_ID\]\w+)?\s*\[ARGS\]\s*")
    ),
    opening_tag="[TOOL_CALLS]",
    inner_markup=("[ARGS]", "[CALL_ID]"),
    template_markers=("[ARGS]",),
    shape=CallShape(lambda name: f"{name}[ARGS]", ""),
)


# Kimi K2: ``functions.name:0<|tool_call_argument_begin|>{…}`` inside a section of calls.
_ARGUMENTS = "<|tool_call_argument_begin|>"
_KIMI_CALL = "<|tool_call_begin|>"
_KIMI_CALL_END = "<|tool_call_end|>"
_SECTION = "<|tool_calls_section_begin|>"
_SECTION_END = "<|tool_calls_section_end|>"


def _write_kimi(call: ToolCall) -> str:
    arguments = json_text(dict(call.arguments))
    # The number counts the calls of the conversation; it is that of a first call.
    return (
        f"{_SECTION}{_KIMI_CALL}functions.{call.name}:0{_ARGUMENTS}{arguments}{_KIMI_CALL_END}{_SECTION_END}"
    )


KIMI_K2: Final = ToolCallFormat(
    name="kimi_k2",
    scanner=functools.partial(
        NamedJsonScanner,
        head=re.compile(rf"\s*(?:functions\.)?{TOOL_NAME}(?::\d+)?\s*{re.escape(_ARGUMENTS)}\s*"),
        tail=_KIMI_CALL_END,
    ),
    opening_tag=_SECTION + _KIMI_CALL,
    separator=_KIMI_CALL,
    closing=_SECTION_END,
    inner_markup=(_SECTION, _KIMI_CALL, _ARGUMENTS, _KIMI_CALL_END),
    template_markers=(_SECTION,),
    write=_write_kimi,
)


# DeepSeek: calls between tags, with a separator before or behind the name.
_CALL = "<｜tool▁call▁begin｜>"
_CALL_END = "<｜tool▁call▁end｜>"
_CALLS = "<｜tool▁calls▁begin｜>"
_CALLS_END = "<｜tool▁calls▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"


def _write_deepseek_v3(call: ToolCall) -> str:
    arguments = f"```json\n{json_text(dict(call.arguments))}\n```"
    return f"{_CALLS}{_CALL}function{_SEPARATOR}{call.name}\n{arguments}{_CALL_END}{_CALLS_END}"


def _write_deepseek_v31(call: ToolCall) -> str:
    return f"{_CALLS}{_CALL}{call.name}{_SEPARATOR}{json_text(dict(call.arguments))}{_CALL_END}{_CALLS_END}"


DEEPSEEK_V3: Final = ToolCallFormat(
    name="deepseek_v3",  # the arguments stand in a code fence
    scanner=functools.partial(
        NamedJsonScanner,
        head=re.compile(rf"\s*function{_SEPARATOR}\s*{TOOL_NAME}\s*```(?:json)?\s*"),
        tail=_CALL_END,
    ),
    opening_tag=_CALLS + _CALL,
    separator=_CALL,
    closing=_CALLS_END,
    inner_markup=(_CALLS, _CALL, _SEPARATOR, _CALL_END),
    write=_write_deepseek_v3,
    template_markers=("function<｜tool▁sep｜>", "'<｜tool▁sep｜>' + tool['function']['name']"),  # V3, R1
)

DEEPSEEK_V31: Final = ToolCallFormat(
    name="deepseek_v31",  # the call is its name, the separator, then the arguments
    scanner=functools.partial(
        NamedJsonScanner, head=re.compile(rf"\s*{TOOL_NAME}{_SEPARATOR}\s*"), tail=_CALL_END
    ),
    opening_tag=_CALLS + _CALL,
    separator=_CALL,
    closing=_CALLS_END,
    inner_markup=(_CALLS, _CALL, _SEPARATOR, _CALL_END),
    write=_write_deepseek_v31,
    template_markers=(_CALLS,),  # V3.1
)
