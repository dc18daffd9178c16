"""Families of tools: what a tool is called, how it is described, and how people ask for it.

Each family is an entry of a file in ``data/families``. Its requests are lines of the grammar of
:mod:`.grammar`. Lines and names that are held out are never used in training: evaluation asks through them.
Imperative lines start with a verb and are wrapped in politeness; a line that ends in ``?`` is a question
and stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .grammar import lines, load

_FILES = ("notes", "calendar", "mail", "files", "places", "home", "facts", "services")
DEMO_FAMILIES = (
    "search_notes",
    "read_note",
    "create_note",
    "list_events",
    "add_event",
    "search_mail",
    "read_mail",
    "search_files",
    "read_file",
    "get_weather",
)
"""The families behind the personal assistant's tools, under their usual names."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its usual name, what it is filled with, and other names it may go by."""

    name: str
    slot: str
    type: str = "string"
    """The JSON schema type shown to the model: "string", "integer", "number", or alternatives: "on|off"."""
    aliases: tuple[str, ...] = ()
    default: str = ""
    """What a request means that leaves the slot out; empty if every request fills it."""


@dataclass(frozen=True)
class Family:
    """One kind of tool. ``names[0]`` is the usual name; ``held_out_names`` appear in evaluation only."""

    key: str
    names: tuple[str, ...]
    held_out_names: tuple[str, ...]
    nouns: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    requests: tuple[str, ...]
    held_out: tuple[str, ...]
    chain_to: str = ""
    """The family that reads what this one finds."""
    chain_requests: tuple[str, ...] = ()
    """Requests that want the first hit read as well."""
    chain_held_out: tuple[str, ...] = ()


def _family(key: str, entry: Mapping[str, Any]) -> Family:
    """Return the family of an ``entry``, in which names are separated by spaces and all else by lines."""
    names = {name: tuple(entry[name].split()) for name in ("names", "held_out_names", "nouns")}
    texts = ("descriptions", "requests", "held_out", "chain_requests", "chain_held_out")
    return Family(
        key,
        **names,
        **{name: lines(entry[name]) for name in texts if name in entry},
        parameters=tuple(
            Parameter(**{**each, "aliases": tuple(each.get("aliases", "").split())})
            for each in entry["parameters"]
        ),
        chain_to=entry.get("chain_to", ""),
    )


FAMILIES: Final[Mapping[str, Family]] = {
    key: _family(key, entry) for file in _FILES for key, entry in load(f"families/{file}").items()
}
