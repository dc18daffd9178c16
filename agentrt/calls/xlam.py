"""xLAM: ``[{"name": …, "arguments": …}, …]`` as the whole message."""

from __future__ import annotations

from typing import Final

from .events import ToolCall
from .format import ToolCallFormat
from .json_scanner import JsonCallScanner
from .writing import json_call


def _write(call: ToolCall) -> str:
    return f"[{json_call(call)}]"


XLAM: Final = ToolCallFormat(
    name="xlam",
    scanner=JsonCallScanner,
    message_opening="[",
    separator=",",
    closing="]",
    model_names=("xlam",),  # its chat template is that of its base model
    write=_write,
    # No shape: a bracket may also begin ordinary text.
)
