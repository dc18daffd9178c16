"""DeepSeek: calls between ``<｜tool▁calls▁begin｜>`` and ``<｜tool▁calls▁end｜>``."""

from __future__ import annotations

import functools
import re
from typing import Final

from .events import ToolCall
from .format import ToolCallFormat
from .named_json_scanner import TOOL_NAME, NamedJsonScanner
from .writing import json_text

_CALL = "<｜tool▁call▁begin｜>"
_CALL_END = "<｜tool▁call▁end｜>"
_CALLS = "<｜tool▁calls▁begin｜>"
_CALLS_END = "<｜tool▁calls▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"


def _write_v3(call: ToolCall) -> str:
    arguments = f"```json\n{json_text(dict(call.arguments))}\n```"
    return f"{_CALLS}{_CALL}function{_SEPARATOR}{call.name}\n{arguments}{_CALL_END}{_CALLS_END}"


def _write_v31(call: ToolCall) -> str:
    return f"{_CALLS}{_CALL}{call.name}{_SEPARATOR}{json_text(dict(call.arguments))}{_CALL_END}{_CALLS_END}"


DEEPSEEK_V3: Final = ToolCallFormat(
    name="deepseek_v3",  # the call is ``function<｜tool▁sep｜>name``, then the arguments in a code fence
    scanner=functools.partial(
        NamedJsonScanner,
        head=re.compile(rf"\s*function{_SEPARATOR}\s*{TOOL_NAME}\s*```(?:json)?\s*"),
        tail=_CALL_END,
    ),
    opening_tag=_CALLS + _CALL,
    separator=_CALL,
    closing=_CALLS_END,
    inner_markup=(_CALLS, _CALL, _SEPARATOR, _CALL_END),
    write=_write_v3,
    template_markers=("function<｜tool▁sep｜>", "'<｜tool▁sep｜>' + tool['function']['name']"),  # V3, R1
)

DEEPSEEK_V31: Final = ToolCallFormat(
    name="deepseek_v31",  # the call is ``name<｜tool▁sep｜>{…}``
    scanner=functools.partial(
        NamedJsonScanner, head=re.compile(rf"\s*{TOOL_NAME}{_SEPARATOR}\s*"), tail=_CALL_END
    ),
    opening_tag=_CALLS + _CALL,
    separator=_CALL,
    closing=_CALLS_END,
    inner_markup=(_CALLS, _CALL, _SEPARATOR, _CALL_END),
    write=_write_v31,
    template_markers=(_CALLS,),  # V3.1
)
