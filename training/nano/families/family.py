"""What a family of tools is, and how one is written down.

Requests are written in a small grammar: ``[a|b]`` chooses one alternative (it may be empty, and nests),
``{slot}`` is filled with an entity. Lines under ``held_out`` are never used in training: evaluation asks
through them. Imperative lines start with a verb and are wrapped in politeness; a line that ends in ``?``
is a question and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

ArgumentType = str
"""The JSON schema type shown to the model: "string", "integer", "number", or alternatives such as "on|off"."""

QUERY_NAMES = ("q", "text", "keywords", "search", "term", "phrase", "words", "search_query")
"""Other names of a parameter that says what to search for."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its usual name, what it is filled with, and other names it may go by."""

    name: str
    slot: str
    type: ArgumentType = "string"
    aliases: tuple[str, ...] = ()
    default: str = ""
    """What a request means that leaves the slot out; empty if every request fills it."""


@dataclass(frozen=True)
class Family:
    """One kind of tool. ``names[0]`` is the usual name; ``held_out_names`` appear in evaluation only."""

    key: str
    names: tuple[str, ...]
    held_out_names: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    requests: tuple[str, ...]
    held_out: tuple[str, ...]
    nouns: tuple[str, ...]
    chain_to: str = ""
    """The family that reads what this one finds."""
    chain_requests: tuple[str, ...] = ()
    """Requests that want the first hit read as well."""
    chain_held_out: tuple[str, ...] = ()


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines() if line.strip())


def family(
    key: str,
    *,
    names: str,
    held_out_names: str,
    descriptions: str,
    parameters: tuple[Parameter, ...],
    requests: str,
    held_out: str,
    nouns: str,
    chain_to: str = "",
    chain_requests: str = "",
    chain_held_out: str = "",
) -> Family:
    """A family from blocks of text: names and nouns are separated by spaces, everything else by lines."""
    return Family(
        key,
        tuple(names.split()),
        tuple(held_out_names.split()),
        _lines(descriptions),
        parameters,
        _lines(requests),
        _lines(held_out),
        tuple(nouns.split()),
        chain_to,
        _lines(chain_requests),
        _lines(chain_held_out),
    )
