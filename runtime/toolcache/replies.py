"""Turns of tools and what follows them, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from agentrt.calls import ToolCall


class Reply(NamedTuple):
    """What follows a turn that calls."""

    end: int
    """The token that ends such a turn."""
    tokens: tuple[int, ...]
    """Those behind it: the outputs, and the opening of the model's next word."""


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """A turn of tools that the engine answers by itself."""

    calls: tuple[ToolCall, ...]
    outputs: tuple[str, ...]
    """One a call, in their order."""
    reply: Reply


class Spelling(NamedTuple):
    """A call and its output in tokens."""

    call: tuple[int, ...]
    """As the model would write the call, from the token that opens it to the end of its turn; empty where
    calls do not open with a token of their own."""
    reply: Reply
    """What follows a turn of this call alone."""
