"""Mistral: ``[TOOL_CALLS] [{"name": …, "arguments": {…}}]``, or ``[TOOL_CALLS]name[ARGS]{…}`` per call."""

from __future__ import annotations

import functools
import json
import re
from typing import Final

from .format import CallShape, ToolCallFormat
from .json_scanner import JsonCallScanner
from .named_json_scanner import TOOL_NAME, NamedJsonScanner


def _head(name: str) -> str:
    return f'[{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


MISTRAL: Final = ToolCallFormat(
    name="mistral",
    scanner=functools.partial(JsonCallScanner, before="["),
    opening_tag="[TOOL_CALLS]",
    separator=",",
    closing="]",
    template_markers=("[TOOL_CALLS]",),  # Mistral 7B v0.3, Nemo, Small up to 3.1
    shape=CallShape(_head, "}]"),
)

MISTRAL_ARGS: Final = ToolCallFormat(
    name="mistral_args",
    scanner=functools.partial(
        NamedJsonScanner, head=re.compile(rf"\s*{TOOL_NAME}(?:\[CALL_ID\]\w+)?\s*\[ARGS\]\s*")
    ),
    opening_tag="[TOOL_CALLS]",
    inner_markup=("[ARGS]", "[CALL_ID]"),
    template_markers=("[ARGS]",),  # Mistral Small 3.2, Magistral, Devstral
    shape=CallShape(lambda name: f"{name}[ARGS]", ""),
)
