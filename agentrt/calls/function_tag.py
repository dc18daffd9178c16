"""Llama 3.1's custom tools: ``<function=name>{"key": "value"}</function>`` anywhere in the text."""

from __future__ import annotations

import functools
import re
from typing import Final

from .format import ToolCallFormat
from .named_json_scanner import TOOL_NAME, NamedJsonScanner
from .writing import json_text

FUNCTION_TAG: Final = ToolCallFormat(
    name="function_tag",
    scanner=functools.partial(NamedJsonScanner, head=re.compile(rf"{TOOL_NAME}>\s*"), tail="</function>"),
    opening_tag="<function=",
    write=lambda call: f"<function={call.name}>{json_text(dict(call.arguments))}</function>",
)
