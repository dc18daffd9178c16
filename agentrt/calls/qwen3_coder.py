"""Qwen3-Coder: ``<tool_call><function=name><parameter=key>value</parameter></function></tool_call>``."""

from __future__ import annotations

import functools
import re
from typing import Final

from .format import ToolCallFormat
from .named_json_scanner import TOOL_NAME
from .tagged_scanner import TaggedCallScanner

_PARAMETER = re.compile(
    r"\s*<parameter=(?P<key>[^>\n]+)>\n?(?P<value>(?:(?!</parameter>).)*?)\n?</parameter>", re.DOTALL
)

QWEN3_CODER: Final = ToolCallFormat(
    name="qwen3_coder",
    scanner=functools.partial(
        TaggedCallScanner,
        start="<function=",
        head=re.compile(rf"\s*<function={TOOL_NAME}>"),
        argument=_PARAMETER,
        end="</function>",
    ),
    opening_tag="<tool_call>",
    closing="</tool_call>",
    template_markers=("<function=",),  # Qwen3-Coder, Qwen 3.5
    untyped_arguments=True,
)

QWEN3_CODER_BARE: Final = ToolCallFormat(
    name="qwen3_coder_bare",
    scanner=functools.partial(
        TaggedCallScanner,
        start="",
        head=re.compile(rf"{TOOL_NAME}>"),
        argument=_PARAMETER,
        end="</function>",
    ),
    opening_tag="<function=",  # the model has left out the tag around it
    closing="</tool_call>",
    untyped_arguments=True,
)
