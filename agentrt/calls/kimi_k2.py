"""Kimi K2: ``functions.name:0<|tool_call_argument_begin|>{…}`` inside a section of calls."""

from __future__ import annotations

import functools
import re
from typing import Final

from .events import ToolCall
from .format import ToolCallFormat
from .named_json_scanner import NamedJsonScanner
from .writing import json_text

_ARGUMENTS = "<|tool_call_argument_begin|>"
_CALL = "<|tool_call_begin|>"
_CALL_END = "<|tool_call_end|>"
_SECTION = "<|tool_calls_section_begin|>"
_SECTION_END = "<|tool_calls_section_end|>"


def _write(call: ToolCall) -> str:
    arguments = json_text(dict(call.arguments))
    # The number counts the calls of the conversation; it is that of a first call.
    return f"{_SECTION}{_CALL}functions.{call.name}:0{_ARGUMENTS}{arguments}{_CALL_END}{_SECTION_END}"


KIMI_K2: Final = ToolCallFormat(
    name="kimi_k2",
    scanner=functools.partial(
        NamedJsonScanner,
        head=re.compile(
            rf"\s*(?:functions\.)?(?P<name>[A-Za-z_][\w.\-]*)(?::\d+)?\s*{re.escape(_ARGUMENTS)}\s*"
        ),
        tail=_CALL_END,
    ),
    opening_tag=_SECTION + _CALL,
    separator=_CALL,
    closing=_SECTION_END,
    inner_markup=(_SECTION, _CALL, _ARGUMENTS, _CALL_END),
    template_markers=(_SECTION,),
    write=_write,
)
