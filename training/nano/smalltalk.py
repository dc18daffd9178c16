"""What people say that needs no tool: small talk with its short replies, and requests that no tool serves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .grammar import lines, load, named

_DATA: Final = load("smalltalk")


class SmallTalk(NamedTuple):
    """What may be said, and the reply to it."""

    said: tuple[str, ...]
    reply: str


def _small_talk(entries: list[Mapping[str, Any]]) -> tuple[SmallTalk, ...]:
    return tuple(SmallTalk(lines(named(entry["said"], _DATA["words"])), entry["reply"]) for entry in entries)


SMALL_TALK: Final = _small_talk(_DATA["small_talk"])
HELD_OUT_SMALL_TALK: Final = _small_talk(_DATA["held_out_small_talk"])
UNSERVED: Final = lines(_DATA["unserved"])
NEAR_MISSES: Final = lines(_DATA["near_misses"])
HELD_OUT_UNSERVED: Final = lines(_DATA["held_out_unserved"])
NO_TOOL_REPLY: Final[str] = _DATA["no_tool_reply"]
SYSTEM_PROMPTS: Final = lines(_DATA["system_prompts"])
SERVED_BY: Final = tuple(
    (re.compile(rf"(?i)\b({entry['words']})\b"), frozenset(entry["families"].split()))
    for entry in _DATA["served_by"]
)
"""What a request is about that one of these families may serve after all: with it there, it is not used."""
CONFUSABLE: Final = {
    family: group for group, families in _DATA["confusable"].items() for family in families.split()
}
"""Families of which a request to one may be served by another: never the one as what no tool serves."""
