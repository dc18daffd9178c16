"""A whole message that is one call, or an array of calls, as JSON: what models write without markup."""

from __future__ import annotations

import functools
from typing import Final

from .format import ToolCallFormat
from .json_scanner import JsonCallScanner
from .writing import json_call

_OTHER_KEYS: Final = frozenset({"id", "type"})
"""A JSON answer with further keys is data, not a call."""

JSON_MESSAGE: Final = ToolCallFormat(
    name="json_message",
    scanner=functools.partial(JsonCallScanner, before="[,;", other_keys=_OTHER_KEYS),
    message_opening="",
    separator="",  # also one call per line
    closing="]",
    # For models whose chat template takes no tools: the prompt of runtime/model/tool_prompt.py teaches it.
    write=json_call,
)
