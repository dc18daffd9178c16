"""xLAM: ``[{"name": …, "arguments": …}, …]`` as the whole message."""

from __future__ import annotations

from typing import Final

from .format import ToolCallFormat
from .json_scanner import JsonCallScanner

XLAM: Final = ToolCallFormat(
    name="xlam",
    scanner=JsonCallScanner,
    message_opening="[",
    separator=",",
    closing="]",
    model_names=("xlam",),  # its chat template is that of its base model
    # No shape: a bracket may also begin ordinary text.
)
