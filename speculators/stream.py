"""Guesses without guessing: dispatches a call once the main model has written all of its arguments."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from agentrt.calls import (
    MAX_CALL_CHARACTERS,
    CallArgumentsDelta,
    CallFinished,
    CallStarted,
    ParserEvent,
    TextDelta,
    ToolCall,
    ToolCallFormat,
    find_tool_call_format,
    parse_arguments,
    tool_call_parser,
)
from agentrt.drafts import DraftRequest

_IN_STRING = re.compile(r'[^"\\]+')
_OUTSIDE = re.compile(r'[^"{}\[\]]+')


class StreamSpeculator:
    """Reads the main model's answer along and yields each call as soon as its arguments are *sealed*.

    A call's arguments are sealed when the JSON object they are written in is closed: whatever the model
    goes on to write, further calls, text, usage, belongs to something else. So the first of several
    parallel calls runs while the others are being written, and the last one runs while the end of the
    answer is on its way. No draft model is asked and, where the answer is well-formed, no guess is wrong.

    It needs an answer that is streamed; of one that is not it knows nothing.
    """

    name = "stream"

    def __init__(self, *, format: ToolCallFormat | str | None = None) -> None:
        """``format``, or its name, is how the main model writes calls, for servers that do not parse them.

        Raises:
            ConfigurationError: there is no format of this name.
        """
        self._format = None if format is None else find_tool_call_format(format)

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        """Yield each sealed call of the answer, once."""
        parser = tool_call_parser(self._format) if self._format is not None else None
        sealing = _Sealing()
        async for event in request.answer.events():
            events: Iterable[ParserEvent] = (event,)
            if parser is not None:
                events = parser.feed(event.text) if isinstance(event, TextDelta) else ()
            for each in events:
                for call in sealing.feed(each):
                    yield call


class _Sealing:
    """Puts calls together from the events of one answer."""

    def __init__(self) -> None:
        self._open: dict[int, _Arguments] = {}

    def feed(self, event: ParserEvent) -> list[ToolCall]:
        """Return the calls that ``event`` seals."""
        if isinstance(event, CallStarted):
            # A new call ends those before it, also one that takes no arguments and was given none.
            sealed = [call for index in sorted(self._open) if (call := self._open.pop(index).empty_call())]
            self._open[event.index] = _Arguments(event.name)
            return sealed
        if isinstance(event, CallArgumentsDelta):
            known = self._open.get(event.index)
            if known is None or not known.feed(event.text):
                return []
            del self._open[event.index]
            call = known.call()
            return [call] if call is not None else []
        if isinstance(event, CallFinished) and self._open.pop(event.index, None) is not None:
            return [event.call]
        return []


class _Arguments:
    """The arguments of one call, as far as they are written."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._text: list[str] = []
        self._characters = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str) -> bool:
        """Take the next piece; True once the object is closed, or is too long to go on with."""
        self._text.append(text)
        self._characters += len(text)
        position = 0
        while position < len(text):
            skipped = (_IN_STRING if self._in_string else _OUTSIDE).match(text, position)
            if self._escaped:
                self._escaped = False
                position += 1
            elif skipped is not None:
                position = skipped.end()
            else:
                character = text[position]
                position += 1
                if character == '"':
                    self._in_string = not self._in_string
                elif character == "\\":
                    self._escaped = True
                else:
                    self._depth += 1 if character in "{[" else -1
                    if self._depth <= 0:
                        return True
        return self._characters > MAX_CALL_CHARACTERS

    def call(self) -> ToolCall | None:
        """The call, or None if the text is no JSON object."""
        with suppress(ValueError):
            return ToolCall(self._name, parse_arguments("".join(self._text)))
        return None

    def empty_call(self) -> ToolCall | None:
        """The call, if nothing was written of its arguments."""
        return None if "".join(self._text).strip() else ToolCall(self._name, {})
