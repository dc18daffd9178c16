"""Qwen3-Coder: ``<tool_call><function=name><parameter=key>value</parameter></function></tool_call>``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

from .events import ToolCall
from .format import CallScanner, ToolCallFormat
from .named_json_scanner import TOOL_NAME
from .tagged_scanner import TaggedCallScanner
from .writing import plain_text

_PARAMETER = re.compile(
    r"\s*<parameter=(?P<key>[^>\n]+)>\n?(?P<value>(?:(?!</parameter>).)*?)\n?</parameter>", re.DOTALL
)


def _write_bare(call: ToolCall) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{plain_text(value)}\n</parameter>\n" for key, value in call.arguments.items()
    )
    return f"<function={call.name}>\n{parameters}</function>"


def _write(call: ToolCall) -> str:
    return f"<tool_call>\n{_write_bare(call)}\n</tool_call>"


def _scanner(start: str) -> Callable[[int], CallScanner]:
    """Create scanners of calls with ``start`` before the name."""
    return functools.partial(
        TaggedCallScanner,
        start=start,
        head=re.compile(rf"\s*{start}{TOOL_NAME}>"),
        argument=_PARAMETER,
        end="</function>",
    )


QWEN3_CODER: Final = ToolCallFormat(
    name="qwen3_coder",
    scanner=_scanner("<function="),
    opening_tag="<tool_call>",
    closing="</tool_call>",
    template_markers=("<function=",),  # Qwen3-Coder, Qwen 3.5
    untyped_arguments=True,
    write=_write,
)

QWEN3_CODER_BARE: Final = ToolCallFormat(
    name="qwen3_coder_bare",
    scanner=_scanner(""),
    opening_tag="<function=",  # the model has left out the tag around it
    closing="</tool_call>",
    untyped_arguments=True,
    write=_write_bare,
)
