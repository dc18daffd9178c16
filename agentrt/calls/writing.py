"""Calls as text, in the notations that several formats share."""

from __future__ import annotations

import json
from typing import Any

from .events import ToolCall


def json_text(value: Any) -> str:
    """Return a JSON value as models write it: with a space after ``,`` and ``:``, not limited to ASCII."""
    return json.dumps(value, ensure_ascii=False)


def json_call(call: ToolCall) -> str:
    """Return a call as ``{"name": …, "arguments": …}``."""
    return json_text({"name": call.name, "arguments": dict(call.arguments)})


def plain_text(value: Any) -> str:
    """Return a value of a format whose arguments are plain texts: a string as it is, any other as JSON."""
    return value if isinstance(value, str) else json_text(value)
