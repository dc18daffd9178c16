"""``<tools>{"name": …, "arguments": {…}}</tools>``: the tag of Qwen's tool list, which its coders write."""

from __future__ import annotations

import functools
from typing import Final

from .format import ToolCallFormat
from .json_scanner import JsonCallScanner
from .writing import json_call

TOOLS_TAG: Final = ToolCallFormat(
    name="tools_tag",
    scanner=functools.partial(JsonCallScanner, before="["),
    opening_tag="<tools>",
    closing="</tools>",
    write=lambda call: f"<tools>\n{json_call(call)}\n</tools>",
)
