"""Requests for several things at once: "A and B"."""

from __future__ import annotations

from .tools import Tool

SEPARATE = (
    " and ",
    " and ",
    " and ",
    ", and ",
    " and also ",
    ", also ",
    "; ",
    ". Also ",
    ". ",
    ", and please ",
    " plus ",
    ", then ",
)
"""What stands between two whole requests."""

_LISTED = frozenset(["city", "path", "symbol", "id", "note_id", "mail_id", "person", "country", "date"])
"""Slots of which two can be named in one breath and mean two calls. Two topics are one query."""


def listed(tool: Tool) -> str | None:
    """The slot of the tool's one parameter, if two values of it mean two calls."""
    if len(tool.parameters) != 1:
        return None
    slot = tool.parameters[0][0].slot
    return slot if slot in _LISTED else None


def several_lines(count: int) -> tuple[str, ...]:
    """Ways of naming two or three things, with ``{}`` for each."""
    if count == 2:
        return (
            "{} and {}",
            "{} and {}",
            "{} and {}",
            "[both|] {} and {}",
            "{} [&|and also|as well as] {}",
            "{}, and {}",
            "{}, {}",
            "{} and then {}",
            "{} plus {}",
        )
    return ("{}, {} and {}", "{}, {} and {}", "{}, {}, and {}", "{} and {} and {}", "{}, {}, {}")
