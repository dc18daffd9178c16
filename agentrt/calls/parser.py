"""Splits model text into ordinary text and tool calls while it is being written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from .events import CallFinished, CallStarted, ParserEvent, TextDelta, ToolCall, call_events
from .format import CallScanner, ToolCallFormat
from .registry import find_tool_call_format

MAX_CALL_CHARACTERS: Final = 1 << 20
"""The longest call in characters. A longer one counts as malformed, so that memory stays bounded."""

CallCheck: TypeAlias = Callable[[ToolCall, ToolCallFormat], ToolCall | None]
"""Returns the call to report for one that was read in a format, or None if its text is no call."""

_SPACE: Final = " \t\r\n"
_MAX_SPACE: Final = 64  # a longer run of whitespace is text, not the whitespace around a call
_PIECE: Final = 4096  # longer input is processed in pieces, so that the work stays linear in its length


class ToolCallParser:
    """An incremental parser of one message.

    Feed the text in any pieces, then close. Once neighbouring deltas are merged, the events do not depend on
    where the text was split. No text is lost: everything except well-formed calls, their markup, and the
    whitespace between those is returned as :class:`TextDelta`.

    Not thread-safe; one parser per message.
    """

    def __init__(
        self,
        format: ToolCallFormat | None,
        *,
        fallbacks: Sequence[ToolCallFormat] = (),
        check: CallCheck | None = None,
        unchecked: ToolCallFormat | None = None,
    ) -> None:
        """Start at the beginning of a message written in ``format``, if that is known.

        Sections of ``fallbacks`` are read as well, where their opening tags occur. With a ``check``, the
        events of a call come once it is complete and checked, except in the format ``unchecked``.
        """
        self._message_format = format if format is not None and format.message_opening is not None else None
        self._check = check
        self._unchecked = unchecked
        self._tagged: dict[str, list[ToolCallFormat]] = {}
        for each in (format, *fallbacks):
            if each is not None and each.opening_tag is not None:
                self._tagged.setdefault(each.opening_tag, []).append(each)
        tags = sorted(self._tagged, key=len, reverse=True)
        self._tag = re.compile("|".join(map(re.escape, tags))) if tags else None
        self._longest_tag = max(map(len, tags), default=0)
        self._first_characters = {tag[0] for tag in tags}
        self._section: ToolCallFormat | None = None  # the format of the last call
        self._state: Literal["start", "text", "call", "after"] = "start"
        self._pending = ""
        self._held: list[str] = []  # text of the call so far, returned as text if the call is malformed
        self._held_characters = 0
        self._held_events: list[ParserEvent] = []
        self._scanner: EitherScanner | None = None
        self._next_index = 0
        self._after_call = False

    @property
    def unfinished_call(self) -> str | None:
        """The tool's name of a call that is read but not yet reported; None if there is none."""
        return next((event.name for event in self._held_events if isinstance(event, CallStarted)), None)

    def feed(self, text: str) -> list[ParserEvent]:
        """Parse the next piece of text and return the events it completed."""
        events: list[ParserEvent] = []
        for start in range(0, len(text), _PIECE):
            self._pending += text[start : start + _PIECE]
            while self._advance(events):
                pass
        return events

    def close(self, *, cut: bool = False) -> list[ParserEvent]:
        """End the message. An unfinished call is malformed; a missing closing tag is not an error.

        ``cut`` says that the message was cut off before the model ended it: an unfinished call and the
        beginning of markup after a call are then dropped.
        """
        events: list[ParserEvent] = []
        unfinished = self._state in ("call", "after")
        if not (cut and unfinished) and (self._state == "call" or not self._only_space_after_call()):
            self._emit("".join(self._held) + self._pending, events)
        self._pending, self._held = "", []
        return events

    def _advance(self, events: list[ParserEvent]) -> bool:
        """Make one step; return False when more text is needed."""
        if not self._pending:
            return False
        if self._state == "start":
            return self._at_start()
        if self._state == "text":
            return self._in_text(events)
        if self._state == "call":
            return self._in_call(events)
        return self._after(events)

    def _at_start(self) -> bool:
        body = self._pending.lstrip(_SPACE)
        space = len(self._pending) - len(body)
        format = self._message_format
        opening = None if format is None else format.message_opening
        if format is None or opening is None or space > _MAX_SPACE:
            self._state = "text"
        elif _is_incomplete(body, *self._tagged, opening):
            return False
        elif any(body.startswith(tag) for tag in self._tagged):
            self._state = "text"
        elif body.startswith(opening):
            self._open_call(space + len(opening), [format])
        else:
            self._state = "text"
        return True

    def _in_text(self, events: list[ParserEvent]) -> bool:
        if self._tag is None:
            if self._only_space_after_call():
                return False
            self._emit_text(len(self._pending), events)
            return True
        found = self._tag.search(self._pending)
        # A shorter tag may be the beginning of a longer one.
        if found and not _is_incomplete(self._pending[found.start() :], *self._tagged):
            text = self._without_space(found.start())
            self._emit_text(text, events)
            self._open_call(found.end() - text, self._tagged[found[0]])
            return True
        # The text may end inside a tag, and whitespace before a tag is part of the markup.
        self._emit_text(self._without_space(len(self._pending) - self._half_tag()), events)
        return False

    def _half_tag(self) -> int:
        """Return the length of the longest end of the pending text that more text may complete to a tag."""
        end = len(self._pending)
        for start in range(max(0, end - self._longest_tag + 1), end):
            if self._pending[start] in self._first_characters:
                rest = self._pending[start:]
                if any(tag.startswith(rest) and tag != rest for tag in self._tagged):
                    return end - start
        return 0

    def _without_space(self, end: int) -> int:
        """Return where ``pending[:end]`` ends without trailing whitespace, of which at most 64 characters."""
        return max(len(self._pending[:end].rstrip(_SPACE)), end - _MAX_SPACE)

    def _only_space_after_call(self) -> bool:
        return self._after_call and len(self._pending) <= _MAX_SPACE and not self._pending.strip(_SPACE)

    def _in_call(self, events: list[ParserEvent]) -> bool:
        assert self._scanner is not None
        end = min(len(self._pending), MAX_CALL_CHARACTERS - self._held_characters)
        stopped, found = self._scanner.feed(self._pending, 0, end)
        self._hold(stopped)
        self._held_events += found
        check = None if self._scanner.format is self._unchecked else self._check
        if check is None:
            self._release(events)
        malformed = self._scanner.malformed or self._held_characters >= MAX_CALL_CHARACTERS
        if self._scanner.done and not self._scanner.malformed:
            self._section = self._scanner.format
            malformed = check is not None and not self._release_checked(check, events)
            if not malformed:
                self._state, self._after_call = "after", True
                self._held, self._held_characters = [], 0
        if malformed:
            self._emit("".join(self._held), events)
            self._held, self._held_characters, self._held_events = [], 0, []
            self._state = "text"
        return True

    def _release(self, events: list[ParserEvent]) -> None:
        events += self._held_events
        self._next_index += any(isinstance(event, CallStarted) for event in self._held_events)
        self._held_events = []

    def _release_checked(self, check: CallCheck, events: list[ParserEvent]) -> bool:
        """Release the events of a complete call; return False if ``check`` rejects it."""
        finished = self._held_events[-1]
        assert isinstance(finished, CallFinished)
        assert self._section is not None
        call = check(finished.call, self._section)
        if call is None:
            return False
        if call != finished.call:
            self._held_events = call_events(finished.index, call)
        self._release(events)
        return True

    def _after(self, events: list[ParserEvent]) -> bool:
        body = self._pending.lstrip(_SPACE)
        space = len(self._pending) - len(body)
        assert self._section is not None
        separator, closing = self._section.separator, self._section.closing
        if space > _MAX_SPACE:
            self._state = "text"
        elif _is_incomplete(body, separator, closing):
            return False
        elif closing and body.startswith(closing):
            self._pending = body[len(closing) :]
            self._state = "text"
        elif separator is not None and body.startswith(separator):
            self._open_call(space + len(separator), [self._section])
        else:
            self._state = "text"
        return True

    def _open_call(self, characters: int, formats: Sequence[ToolCallFormat]) -> None:
        """Start reading a call of one of ``formats`` after ``characters`` of markup."""
        self._hold(characters)
        self._scanner = EitherScanner(formats, self._next_index)
        self._state = "call"

    def _hold(self, characters: int) -> None:
        self._held.append(self._pending[:characters])
        self._held_characters += characters
        self._pending = self._pending[characters:]

    def _emit_text(self, characters: int, events: list[ParserEvent]) -> None:
        self._emit(self._pending[:characters], events)
        self._pending = self._pending[characters:]

    def _emit(self, text: str, events: list[ParserEvent]) -> None:
        if text:
            self._after_call = False
            events.append(TextDelta(text))


def _is_incomplete(text: str, *marks: str | None) -> bool:
    """Whether more text may complete ``text`` to one of ``marks``."""
    return not text or any(mark and mark != text and mark.startswith(text) for mark in marks)


def tool_call_parser(format: ToolCallFormat | str) -> ToolCallParser:
    """Return a new parser for one message written in ``format``, or in the format of this name.

    Raises:
        ConfigurationError: there is no format of this name.
    """
    return ToolCallParser(find_tool_call_format(format))


def parse_tool_calls(text: str, format: ToolCallFormat | str) -> tuple[str, tuple[ToolCall, ...]]:
    """Split a whole message into its ordinary text and its well-formed calls.

    Raises:
        ConfigurationError: there is no format of this name.
    """
    parser = tool_call_parser(format)
    events = parser.feed(text) + parser.close()
    plain = "".join(event.text for event in events if isinstance(event, TextDelta))
    return plain, tuple(event.call for event in events if isinstance(event, CallFinished))


class EitherScanner:
    """The scanners of several formats on one text; those of other formats turn out malformed."""

    def __init__(self, formats: Sequence[ToolCallFormat], index: int) -> None:
        """``index`` is the call's index in its message. The first of ``formats`` that is complete wins."""
        self.format = formats[0]
        """The format of the call, once it is done."""
        self.done = False
        self.malformed = False
        self._open: list[tuple[ToolCallFormat, CallScanner, list[ParserEvent]]] = [
            (format, format.scanner(index), []) for format in formats
        ]

    def feed(self, text: str, position: int, end: int) -> tuple[int, list[ParserEvent]]:
        """Read ``text[position:end]``; return where reading stopped, and the events of what was read.

        While more than one format is possible, the events are held back.
        """
        still_open = []
        furthest = position
        for format, scanner, events in self._open:
            stopped, found = scanner.feed(text, position, end)
            furthest = max(furthest, stopped)
            events += found
            if scanner.malformed:
                last = events
            elif scanner.done:
                self.format, self.done = format, True
                return stopped, events
            else:
                still_open.append((format, scanner, events))
        self._open = still_open
        if not still_open:
            self.malformed = True
            return furthest, last
        if len(still_open) > 1:
            return furthest, []
        ((self.format, scanner, events),) = still_open
        self._open = [(self.format, scanner, [])]
        return furthest, events
