"""The text formats in which models write tool calls, and their incremental parsers.

========== ==================================================== ==========================
HERMES     ``<tool_call>{"name": …, "arguments": …}</tool_call>`` Hermes, Qwen; anywhere
LLAMA3_JSON ``{"name": …, "parameters": …}; …``                  Llama 3; the whole message,
                                                                or after ``<|python_tag|>``
PYTHONIC   ``[name(key="value"), …]``                           Llama 3.2 and 4; the message
XLAM       ``[{"name": …, "arguments": …}, …]``                 xLAM; the whole message
========== ==================================================== ==========================
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .events import CallFinished, CallStarted, ParserEvent, TextDelta, ToolCall
from .json_call import JsonCallScanner
from .pythonic_call import PythonicCallScanner

MAX_CALL_CHARACTERS: Final = 1 << 20
"""A longer call is malformed: it comes back as text, and memory stays bounded."""

_SPACE = " \t\r\n"
_MAX_SPACE = 64  # a longer run of whitespace is text, not the whitespace around a call
_PIECE = 4096  # longer input is worked off in pieces, so that the work stays linear in its length
_Scanner: TypeAlias = JsonCallScanner | PythonicCallScanner


class ToolCallFormat(enum.Enum):
    """How a model writes tool calls into its text."""

    HERMES = "hermes"
    LLAMA3_JSON = "llama3_json"
    PYTHONIC = "pythonic"
    XLAM = "xlam"


@dataclass(frozen=True, slots=True)
class _Markup:
    """What surrounds the calls: section = opening, calls joined by a separator, closing."""

    scanner: type[_Scanner]
    tag: str | None = None
    """Opens a section anywhere in the text."""
    message_start: str | None = None
    """Opens a section at the start of the message only; may be empty."""
    separator: str | None = None
    closing: str | None = None


_MARKUP = {
    ToolCallFormat.HERMES: _Markup(JsonCallScanner, tag="<tool_call>", closing="</tool_call>"),
    ToolCallFormat.LLAMA3_JSON: _Markup(
        JsonCallScanner, tag="<|python_tag|>", message_start="", separator=";"
    ),
    ToolCallFormat.PYTHONIC: _Markup(PythonicCallScanner, message_start="[", separator=",", closing="]"),
    ToolCallFormat.XLAM: _Markup(JsonCallScanner, message_start="[", separator=",", closing="]"),
}


class ToolCallParser:
    """Splits one message's text into ordinary text and tool calls while it is being written.

    Feed the text in any pieces, then close. Merging neighbouring deltas, the events do not depend on
    where the text was split. Nothing is lost: what is not a well-formed call, its markup, or
    whitespace between those, comes back as :class:`TextDelta`.

    Not thread-safe; one parser per message.
    """

    def __init__(self, format: ToolCallFormat) -> None:
        """Start at the beginning of a message written in ``format``."""
        self._markup = _MARKUP[format]
        self._where: Literal["start", "text", "call", "after"] = "start"
        self._pending = ""
        self._held: list[str] = []  # what to give back if this section turns out malformed
        self._held_characters = 0
        self._scanner: _Scanner | None = None
        self._next_index = 0
        self._after_call = False

    def feed(self, text: str) -> list[ParserEvent]:
        """Take the next piece of text and return what it completed."""
        events: list[ParserEvent] = []
        for start in range(0, len(text), _PIECE):
            self._pending += text[start : start + _PIECE]
            while self._advance(events):
                pass
        return events

    def close(self) -> list[ParserEvent]:
        """End the message: an unfinished call is malformed, a missing closing tag is forgiven."""
        events: list[ParserEvent] = []
        if self._where == "call" or not self._only_space_after_call():
            self._give_back("".join(self._held) + self._pending, events)
        self._pending, self._held = "", []
        return events

    def _advance(self, events: list[ParserEvent]) -> bool:
        """Make one step; False when more text is needed."""
        if not self._pending:
            return False
        if self._where == "start":
            return self._at_start()
        if self._where == "text":
            return self._in_text(events)
        if self._where == "call":
            return self._in_call(events)
        return self._after(events)

    def _at_start(self) -> bool:
        body = self._pending.lstrip(_SPACE)
        space = len(self._pending) - len(body)
        tag, opening = self._markup.tag, self._markup.message_start
        if opening is None or space > _MAX_SPACE:
            self._where = "text"
        elif not body or (tag and tag != body and tag.startswith(body)):
            return False
        elif tag and body.startswith(tag):
            self._where = "text"
        elif body.startswith(opening):
            self._open_call(space + len(opening))
        else:
            self._where = "text"
        return True

    def _in_text(self, events: list[ParserEvent]) -> bool:
        tag = self._markup.tag
        if tag is None:
            if self._only_space_after_call():
                return False
            self._emit_text(len(self._pending), events)
            return True
        found = self._pending.find(tag)
        if found >= 0:
            text = self._without_space(found)
            self._emit_text(text, events)
            self._open_call(found - text + len(tag))
            return True
        # A tag may be half written, and the whitespace before a tag belongs to it.
        longest = min(len(tag) - 1, len(self._pending))
        half = next(n for n in range(longest, -1, -1) if self._pending.endswith(tag[:n]))
        self._emit_text(self._without_space(len(self._pending) - half), events)
        return False

    def _without_space(self, end: int) -> int:
        """The end of ``pending[:end]`` without its trailing whitespace, of which a bounded run counts."""
        return max(len(self._pending[:end].rstrip(_SPACE)), end - _MAX_SPACE)

    def _only_space_after_call(self) -> bool:
        return self._after_call and len(self._pending) <= _MAX_SPACE and not self._pending.strip(_SPACE)

    def _in_call(self, events: list[ParserEvent]) -> bool:
        assert self._scanner is not None
        end = min(len(self._pending), MAX_CALL_CHARACTERS - self._held_characters)
        stopped, found = self._scanner.feed(self._pending, 0, end)
        events += found
        self._next_index += any(isinstance(event, CallStarted) for event in found)
        self._hold(stopped)
        if self._scanner.done and not self._scanner.malformed:
            self._held, self._held_characters = [], 0
            self._where = "after"
            self._after_call = True
        elif self._scanner.malformed or self._held_characters >= MAX_CALL_CHARACTERS:
            self._give_back("".join(self._held), events)
            self._held, self._held_characters = [], 0
            self._where = "text"
        return True

    def _after(self, events: list[ParserEvent]) -> bool:
        body = self._pending.lstrip(_SPACE)
        space = len(self._pending) - len(body)
        separator, closing = self._markup.separator, self._markup.closing
        if space > _MAX_SPACE:
            self._where = "text"
        elif not body or (closing and closing != body and closing.startswith(body)):
            return False
        elif separator and body.startswith(separator):
            self._open_call(space + len(separator))
        elif closing and body.startswith(closing):
            self._pending = body[len(closing) :]
            self._where = "text"
        else:
            self._where = "text"
        return True

    def _open_call(self, characters: int) -> None:
        """Begin to read a call behind ``characters`` of markup."""
        self._hold(characters)
        self._scanner = self._markup.scanner(self._next_index)
        self._where = "call"

    def _hold(self, characters: int) -> None:
        self._held.append(self._pending[:characters])
        self._held_characters += characters
        self._pending = self._pending[characters:]

    def _emit_text(self, characters: int, events: list[ParserEvent]) -> None:
        self._give_back(self._pending[:characters], events)
        self._pending = self._pending[characters:]

    def _give_back(self, text: str, events: list[ParserEvent]) -> None:
        if text:
            self._after_call = False
            events.append(TextDelta(text))


def tool_call_parser(format: ToolCallFormat) -> ToolCallParser:
    """Return a fresh parser for one message written in ``format``."""
    return ToolCallParser(format)


def parse_tool_calls(text: str, format: ToolCallFormat) -> tuple[str, tuple[ToolCall, ...]]:
    """Split a whole message into its ordinary text and its well-formed calls."""
    parser = ToolCallParser(format)
    events = parser.feed(text) + parser.close()
    plain = "".join(event.text for event in events if isinstance(event, TextDelta))
    return plain, tuple(event.call for event in events if isinstance(event, CallFinished))
