"""Hermes and Qwen: ``<tool_call>{"name": …, "arguments": …}</tool_call>`` anywhere in the text."""

from __future__ import annotations

import json
from typing import Final

from .format import CallShape, ToolCallFormat
from .json_scanner import JsonCallScanner


def _head(name: str) -> str:
    # On a line of its own, as every chat template of this format writes a call: then the next prompt repeats
    # exactly the tokens that the model wrote, and they are found in the prefix cache.
    return f'\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


HERMES: Final = ToolCallFormat(
    name="hermes",
    scanner=JsonCallScanner,
    opening_tag="<tool_call>",
    closing="</tool_call>",
    template_markers=("<tool_call>",),  # Hermes, Qwen 2.5, Qwen 3
    shape=CallShape(_head, "}\n</tool_call>"),
)
