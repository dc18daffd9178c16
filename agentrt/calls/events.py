"""A tool call, and the events a parser turns model text into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as a model asked for it: ``arguments`` are parsed JSON, not yet validated by the tool."""

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of ordinary text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call's name is known. ``index`` counts the calls of one message from 0.

    If the call turns out malformed there is no :class:`CallFinished` for this index, and the call's
    whole text follows as :class:`TextDelta`.
    """

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArgumentsDelta:
    """The next piece of the JSON text of the arguments of call ``index``."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """Call ``index`` is complete and well-formed."""

    index: int
    call: ToolCall


ParserEvent: TypeAlias = TextDelta | CallStarted | CallArgumentsDelta | CallFinished
