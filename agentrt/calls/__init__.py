"""Tool calls: what one is, when two are the same, and how models write them as text.

Used by both halves: the client compares drafts with real calls by :func:`canonical_key`, the local
runtime and the endpoint speculator read calls out of model text with :func:`tool_call_parser`.
"""

from .arguments import parse_arguments
from .events import CallArgumentsDelta, CallFinished, CallStarted, ParserEvent, TextDelta, ToolCall
from .formats import (
    MAX_CALL_CHARACTERS,
    ToolCallFormat,
    ToolCallParser,
    parse_tool_calls,
    tool_call_parser,
)
from .key import MAX_KEY_CHARACTERS, canonical_key

__all__ = [
    "MAX_CALL_CHARACTERS",
    "MAX_KEY_CHARACTERS",
    "CallArgumentsDelta",
    "CallFinished",
    "CallStarted",
    "ParserEvent",
    "TextDelta",
    "ToolCall",
    "ToolCallFormat",
    "ToolCallParser",
    "canonical_key",
    "parse_arguments",
    "parse_tool_calls",
    "tool_call_parser",
]
