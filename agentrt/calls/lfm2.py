"""LFM2: ``<|tool_call_start|>[name(key="value")]<|tool_call_end|>`` anywhere in the text."""

from __future__ import annotations

import functools
from typing import Final

from .events import ToolCall
from .format import ToolCallFormat
from .pythonic import PythonicCallScanner, write_pythonic


def _write(call: ToolCall) -> str | None:
    written = write_pythonic(call)
    return None if written is None else f"<|tool_call_start|>{written}<|tool_call_end|>"


LFM2: Final = ToolCallFormat(
    name="lfm2",
    scanner=functools.partial(PythonicCallScanner, in_list=True),
    opening_tag="<|tool_call_start|>",
    separator=",",
    closing="]<|tool_call_end|>",
    inner_markup=("<|tool_call_end|>",),
    template_markers=("<|tool_call_start|>",),
    write=_write,
)
