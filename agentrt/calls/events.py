"""A tool call, and the events that a parser makes of model text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it. ``arguments`` are parsed JSON, not validated by the tool's schema."""

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of ordinary text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The name of a call is known. ``index`` counts the calls of one message from 0.

    If the call turns out to be malformed, no :class:`CallFinished` with this index follows, and the call's
    whole text follows as :class:`TextDelta`; of a call that was cut off, nothing follows.
    """

    index: int
    name: str
    id: str | None = None
    """The id that the call will have, where its source gives it one."""


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


def call_events(index: int, call: ToolCall) -> list[ParserEvent]:
    """Return the events of a call that is known as a whole."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return [CallStarted(index, call.name), CallArgumentsDelta(index, arguments), CallFinished(index, call)]
