"""Tool calls: what a call is, when two calls are equal, and the text formats in which models write them.

Both halves use it: the client compares drafts with real calls by :func:`canonical_key`; the local runtime and
the speculators read calls out of model text with :func:`tool_call_parser`.
"""

from .arguments import parse_arguments
from .events import CallArgumentsDelta, CallFinished, CallStarted, ParserEvent, TextDelta, ToolCall
from .format import CallScanner, CallShape, ToolCallFormat
from .json_scanner import JsonCallScanner
from .key import MAX_KEY_CHARACTERS, canonical_key
from .message_parser import MessageParser
from .parser import MAX_CALL_CHARACTERS, ToolCallParser, parse_tool_calls, tool_call_parser
from .registry import detect_tool_call_format, find_tool_call_format, takes_tools, tool_call_formats
from .tool_definitions import ToolDefinitions

__all__ = [
    "MAX_CALL_CHARACTERS",
    "MAX_KEY_CHARACTERS",
    "CallArgumentsDelta",
    "CallFinished",
    "CallScanner",
    "CallShape",
    "CallStarted",
    "JsonCallScanner",
    "MessageParser",
    "ParserEvent",
    "TextDelta",
    "ToolCall",
    "ToolCallFormat",
    "ToolCallParser",
    "ToolDefinitions",
    "canonical_key",
    "detect_tool_call_format",
    "find_tool_call_format",
    "parse_arguments",
    "parse_tool_calls",
    "takes_tools",
    "tool_call_formats",
    "tool_call_parser",
]
