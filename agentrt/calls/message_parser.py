"""Finds the calls of offered tools in a message, in whatever format the model writes them."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from ..errors import InvalidRequestError
from .events import CallFinished, CallStarted, ParserEvent, TextDelta, ToolCall
from .format import CallScanner, ToolCallFormat
from .json_formats import JSON_MESSAGE
from .key import canonical_key
from .parser import MAX_CALL_CHARACTERS, ToolCallParser
from .pythonic import PYTHONIC
from .registry import tool_call_formats
from .tool_definitions import ToolDefinitions

_SPACE: Final = " \t\r\n"
_STARTS: Final = ("{", "[", "`")
_FENCE_LINE: Final = re.compile(r"[ \t]*```[a-z_]*[ \t\r]*\n?")
_MAX_FENCE_LINE: Final = 64
_MAX_HEAD: Final = 1024
_HELD_HEAD: Final = re.compile(
    r"(?:```(?:json|tool_call|tool_calls)?\n)?(?:\[[ \t\r\n]{0,32})?"
    r'\{\{?[ \t\r\n]{0,32}"name"[ \t\r\n]{0,32}:[ \t\r\n]{0,32}"(?P<name>[^"\\]*)"'
    r'[ \t\r\n]{0,32},[ \t\r\n]{0,32}"(?:arguments|parameters)"'
)
"""The beginning of a message from which on the grammar of such messages allows nothing but calls."""


class MessageParser:
    """An incremental parser like :class:`ToolCallParser` that also reads calls in other formats.

    A call is, first, what the model's own format says; second, a section of any other format with an opening
    tag, if it is a call of an offered tool with fitting arguments; third, a whole message that consists of
    such calls only: JSON objects or arrays, a Python list of calls, or code fences with these. JSON inside
    prose is text. A message that may still consist of calls is held back, unless a grammar holds it to them.

    A call that is equal to an earlier one ends the message: it and what follows are no part of it.

    Not thread-safe; one parser per message.
    """

    def __init__(
        self,
        format: ToolCallFormat,
        tools: ToolDefinitions,
        *,
        held_to_grammar: Collection[ToolCallFormat] = (),
        parallel: bool = True,
    ) -> None:
        """``format`` is the model's own format; ``tools`` are those that the message may call.

        Unless ``parallel``, any second call ends the message.

        A grammar makes the calls of the formats ``held_to_grammar`` valid: they are not checked, and are
        reported while they are written. :data:`JSON_MESSAGE` stands for messages that begin like a call in
        JSON, with the name of one of ``tools`` first.
        """
        others = [each for each in tool_call_formats() if each is not format and each.opening_tag is not None]
        self._parser = ToolCallParser(
            None if format is JSON_MESSAGE else format,  # of which only whole messages are calls
            fallbacks=others,
            check=tools.check,
            unchecked=format if format in held_to_grammar else None,
        )
        self._trials = [_WholeMessage(each, tools) for each in (JSON_MESSAGE, PYTHONIC)]
        self._calls: ToolCallParser | None = None  # of a message that a grammar holds to calls
        self._distinct = _DistinctCalls(parallel)
        self._tools = tools
        self._message_held = JSON_MESSAGE in held_to_grammar
        self._fences = _FenceRemover()
        self._held: list[str] = []
        self._unfenced: list[str] = []
        self._held_characters = 0
        self._begun = False
        self._undecided = True

    @property
    def ended(self) -> bool:
        """Whether a call has ended the message."""
        return self._distinct.ended

    def feed(self, text: str) -> list[ParserEvent]:
        """Parse the next piece of text and return the events it completed."""
        return [] if self.ended else self._distinct.select(self._parse(text))

    def close(self, *, cut: bool = False) -> list[ParserEvent]:
        """End the message; ``cut`` is as in :meth:`ToolCallParser.close`."""
        return [] if self.ended else self._distinct.select(self._parse_end(cut))

    def _parse(self, text: str) -> list[ParserEvent]:
        if not self._undecided:
            return self._parser.feed(text)
        if self._calls is not None:
            return self._calls.feed(self._fences.feed(text))
        self._held.append(text)
        self._held_characters += len(text)
        start = text.lstrip(_SPACE)
        if not self._begun and start:
            self._begun = True
            if not start.startswith(_STARTS):
                return self._release()
        self._unfenced.append(self._fences.feed(text))
        self._feed_trials(self._unfenced[-1])
        if not self._trials or self._held_characters > MAX_CALL_CHARACTERS:
            return self._release()
        return self._begin_calls()

    def _parse_end(self, cut: bool) -> list[ParserEvent]:
        if self._calls is not None:
            return self._calls.feed(self._fences.close(cut)) + self._calls.close(cut=cut)
        if self._undecided:
            self._feed_trials(self._fences.close(cut))
            for trial in self._trials:
                if trial.close(cut=cut):
                    self._undecided = False
                    return trial.events
        return self._release() + self._parser.close(cut=cut)

    def _feed_trials(self, text: str) -> None:
        self._trials = [trial for trial in self._trials if trial.feed(text)]

    def _begin_calls(self) -> list[ParserEvent]:
        """Report calls while they are written, from where on the grammar allows nothing else."""
        if not self._message_held or self._held_characters > _MAX_HEAD:
            return []
        head = _HELD_HEAD.match("".join(self._held))
        if head is None or head["name"] not in self._tools:
            return []
        self._calls, self._trials, self._held = ToolCallParser(JSON_MESSAGE), [], []
        return self._calls.feed("".join(self._unfenced))

    def _release(self) -> list[ParserEvent]:
        """Treat the message as one in the model's own format."""
        held, self._held, self._undecided = "".join(self._held), [], False
        return self._parser.feed(held)


class _WholeMessage:
    """The trial whether a message consists of calls in one format only."""

    def __init__(self, format: ToolCallFormat, tools: ToolDefinitions) -> None:
        offered = format
        if not tools.trusts(format):  # a call of another name is none, which its name shows
            scanner: Callable[..., CallScanner] = format.scanner
            offered = dataclasses.replace(format, scanner=functools.partial(scanner, offers=tools.offers))
        self._parser = ToolCallParser(offered, check=lambda call, _: tools.check(call, format))
        self.events: list[ParserEvent] = []

    def feed(self, text: str) -> bool:
        """Return whether the message still consists of calls only."""
        return self._add(self._parser.feed(text))

    def close(self, *, cut: bool) -> bool:
        """Return whether the message consists of calls, and ``events`` are theirs.

        A message that was ``cut`` may end in its first call, after the name of an offered tool.
        """
        begun = cut and self._parser.unfinished_call is not None
        only_calls = self._add(self._parser.close(cut=cut))
        return only_calls and (begun or any(isinstance(each, CallFinished) for each in self.events))

    def _add(self, events: Sequence[ParserEvent]) -> bool:
        texts = (event for event in events if not isinstance(event, TextDelta) or event.text.strip(_SPACE))
        self.events += texts
        return not any(isinstance(each, TextDelta) for each in self.events)


class _DistinctCalls:
    """Ends a message at the first call that repeats an earlier one.

    A call of a tool that was called before is held back until it is complete: its arguments may have other
    keys first, or other escapes, and still be equal in the end.
    """

    def __init__(self, parallel: bool) -> None:
        self._parallel = parallel
        self._names: set[str] = set()
        self._keys: set[str] = set()
        self._holding = False
        self._held: list[ParserEvent] = []
        self.ended = False

    def select(self, events: Sequence[ParserEvent]) -> list[ParserEvent]:
        """Return the events that are part of the message, and known to be."""
        selected: list[ParserEvent] = []
        for event in events:
            if isinstance(event, CallStarted):
                self._holding = event.name in self._names or self._is_second()
            elif isinstance(event, TextDelta):
                self._holding = False  # the call that was held is malformed, and this is its text
            elif isinstance(event, CallFinished):
                if self._is_second() or not self._add(event.call):
                    self.ended = True
                    break
                self._holding = False
            self._held.append(event)
            if not self._holding:
                selected += self._held
                self._held = []
        return selected

    def _is_second(self) -> bool:
        return bool(self._names) and not self._parallel

    def _add(self, call: ToolCall) -> bool:
        """Return whether ``call`` differs from all calls before."""
        self._names.add(call.name)
        try:
            key = canonical_key(call.name, call.arguments)
        except InvalidRequestError:
            return True  # too large for a key
        known = key in self._keys
        self._keys.add(key)
        return not known


class _FenceRemover:
    """Removes the lines that open or close a code fence, whatever pieces the text comes in."""

    def __init__(self) -> None:
        self._line = ""  # the beginning of a line that may be a fence
        self._at_line_start = True

    def feed(self, text: str) -> str:
        kept = []
        for piece in text.splitlines(keepends=True):
            line = self._line + piece
            if not self._at_line_start:
                kept.append(piece)
            elif _may_be_fence_line(line):
                if not line.endswith("\n"):
                    self._line = line
                    continue
            else:
                kept.append(line)
            self._line, self._at_line_start = "", piece.endswith("\n")
        return "".join(kept)

    def close(self, cut: bool) -> str:
        return "" if cut or _FENCE_LINE.fullmatch(self._line) else self._line


def _may_be_fence_line(line: str) -> bool:
    if line.endswith("\n"):
        return bool(_FENCE_LINE.fullmatch(line))
    body = line.lstrip(" \t")
    return len(body) <= _MAX_FENCE_LINE and ("```".startswith(body) or bool(_FENCE_LINE.fullmatch(body)))
