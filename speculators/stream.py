"""`StreamSpeculator`: starts a call when the main model has written all of its arguments."""

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
    """Reads the main model's streamed answer and yields each call when its arguments are *sealed*.

    A call's arguments are sealed when their JSON object is closed: further output, be it calls, text or
    usage, does not belong to them. So the first of several parallel calls runs while the others are being
    written, and the last one while the end of the answer is being streamed. There is no draft model, and in
    a well-formed answer no draft is wrong.

    From an answer that is not streamed it yields nothing.
    """

    name = "stream"
    shares_cores = False
    reads_answer = True

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
    """Assembles calls from the events of one answer."""

    def __init__(self) -> None:
        self._open: dict[int, _Arguments] = {}

    def feed(self, event: ParserEvent) -> list[ToolCall]:
        """Return the calls that ``event`` seals."""
        if isinstance(event, CallStarted):
            # A new call seals those before it that have no arguments at all.
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
    """The arguments of one call, as far as they have been written."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._text: list[str] = []
        self._characters = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str) -> bool:
        """Take the next piece; return True when the object is closed, or too long to be a call."""
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
        """Return the call; None if the text is not a JSON object."""
        with suppress(ValueError):
            return ToolCall(self._name, parse_arguments("".join(self._text)))
        return None

    def empty_call(self) -> ToolCall | None:
        """Return the call without arguments; None if some have been written."""
        return None if "".join(self._text).strip() else ToolCall(self._name, {})
