"""Calls in JSON that no chat template shows: in a code fence, indented, with arguments in another order.

Models of code write calls so whose chat template shows another style, or none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from agentrt.calls import ToolCall

_STYLES: Final[tuple[dict[str, Any], ...]] = (
    {"separators": (", ", ": ")},
    {"indent": 2},
    {"indent": 4},
)
_FENCE: Final = b"```"


def json_texts(call: ToolCall, order: Sequence[str]) -> tuple[bytes, ...]:
    """Return the texts in which a model may write ``call`` as a JSON object, the likeliest first.

    The arguments are in the ``order`` of the tool's schema, and as they are in ``call``.
    """
    given = dict(call.arguments)
    ordered = {name: given[name] for name in order if name in given} | given
    orders = [ordered] if list(ordered) == list(given) else [ordered, given]
    return tuple(
        json.dumps({"name": call.name, "arguments": each}, ensure_ascii=False, **style).encode(
            errors="replace"
        )
        for style in _STYLES
        for each in orders
    )


class BegunCall(NamedTuple):
    """What a turn has of a call that it may have begun to write as JSON."""

    text: bytes
    """From the opening brace on."""
    ending: bytes
    """What follows the call."""


def begun_call(turn: bytes | bytearray, tag: bytes, closing: bytes) -> BegunCall | None:
    """Return the call at the end of the text of a ``turn``; None if none has begun there.

    A call begins behind the last ``tag`` that opens calls, which ``closing`` ends, behind the last opening of
    a code fence, or at the start. ``tag`` is empty in formats without one.
    """
    tagged, fenced = turn.rfind(tag) if tag else -1, turn.rfind(_FENCE)
    begin, ending = 0, b""
    if tagged > fenced:
        begin, ending = tagged + len(tag), b"\n" + closing
    elif fenced >= 0:
        begin, ending = turn.find(b"\n", fenced), b"\n" + _FENCE
    text = bytes(turn[begin:]).lstrip() if begin >= 0 else b""
    return BegunCall(text, ending) if text.startswith(b"{") else None
