"""Reads one call in whichever of several formats it is written: they may share an opening tag."""

from __future__ import annotations

from collections.abc import Sequence

from .events import ParserEvent
from .format import CallScanner, ToolCallFormat


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
