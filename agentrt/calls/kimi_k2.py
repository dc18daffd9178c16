"""Kimi K2: ``functions.name:0<|tool_call_argument_begin|>{…}`` inside a section of calls."""

from __future__ import annotations

import functools
import re
from typing import Final

from .format import ToolCallFormat
from .named_json_scanner import NamedJsonScanner

_ARGUMENTS = "<|tool_call_argument_begin|>"
_CALL = "<|tool_call_begin|>"
_CALL_END = "<|tool_call_end|>"
_SECTION = "<|tool_calls_section_begin|>"

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
    closing="<|tool_calls_section_end|>",
    inner_markup=(_SECTION, _CALL, _ARGUMENTS, _CALL_END),
    template_markers=(_SECTION,),
)
