"""Phi-4 and Granite: ``<|tool_call|>[{"name": …, "arguments": {…}}]``, and Phi-4's ``functools[…]``."""

from __future__ import annotations

import functools
from typing import Final

from .format import ToolCallFormat
from .json_scanner import JsonCallScanner
from .writing import json_call

PHI4_MINI: Final = ToolCallFormat(
    name="phi4_mini",
    scanner=functools.partial(JsonCallScanner, before="["),
    opening_tag="<|tool_call|>",
    separator=",",
    closing="]<|/tool_call|>",
    inner_markup=("<|/tool_call|>",),
    template_markers=("<|tool_call|>",),
    write=lambda call: f"<|tool_call|>[{json_call(call)}]<|/tool_call|>",
)

GRANITE: Final = ToolCallFormat(
    name="granite",  # the same without a tag after the array
    scanner=functools.partial(JsonCallScanner, before="["),
    opening_tag="<|tool_call|>",
    separator=",",
    closing="]",
    model_names=("granite",),
    write=lambda call: f"<|tool_call|>[{json_call(call)}]",
)

FUNCTOOLS: Final = ToolCallFormat(
    name="functools",
    scanner=JsonCallScanner,
    opening_tag="functools[",
    separator=",",
    closing="]",
    model_names=("phi-4", "phi-3.5"),
    write=lambda call: f"functools[{json_call(call)}]",
)
