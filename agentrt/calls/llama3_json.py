"""Llama 3: ``{"name": …, "parameters": …}; …`` as the whole message, or after ``<|python_tag|>``."""

from __future__ import annotations

from typing import Final

from .events import ToolCall
from .format import ToolCallFormat
from .json_scanner import JsonCallScanner
from .writing import json_text


def _write(call: ToolCall) -> str:
    return json_text({"name": call.name, "parameters": dict(call.arguments)})


LLAMA3_JSON: Final = ToolCallFormat(
    name="llama3_json",
    scanner=JsonCallScanner,
    opening_tag="<|python_tag|>",
    message_opening="",
    separator=";",
    template_markers=('{"name": function name, "parameters"',),  # Llama 3.1, 3.2, 3.3
    write=_write,
    # No shape: most calls begin without the tag, and a brace may also begin ordinary text.
)
