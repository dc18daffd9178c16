"""GLM 4.5: ``<tool_call>name`` with ``<arg_key>key</arg_key><arg_value>value</arg_value>`` per argument."""

from __future__ import annotations

import functools
import re
from typing import Final

from .events import ToolCall
from .format import ToolCallFormat
from .named_json_scanner import TOOL_NAME
from .tagged_scanner import TaggedCallScanner
from .writing import plain_text


def _write(call: ToolCall) -> str:
    arguments = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{plain_text(value)}</arg_value>\n"
        for key, value in call.arguments.items()
    )
    return f"<tool_call>{call.name}\n{arguments}</tool_call>"


GLM4: Final = ToolCallFormat(
    name="glm4",
    scanner=functools.partial(
        TaggedCallScanner,
        start="",
        head=re.compile(rf"\s*{TOOL_NAME}\s*(?=<arg_key>|$)"),
        argument=re.compile(
            r"\s*<arg_key>(?P<key>[^<\n]+)</arg_key>\s*"
            r"<arg_value>(?P<value>(?:(?!</arg_value>).)*)</arg_value>",
            re.DOTALL,
        ),
        end="</tool_call>",
    ),
    opening_tag="<tool_call>",
    template_markers=("<arg_key>",),  # GLM 4.5, 4.6
    untyped_arguments=True,
    write=_write,
)
