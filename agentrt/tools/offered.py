"""The tools that the model may call in one request, in any provider's shape of tools and of the choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ALL = (None, "", True, False, "auto", "any", "required")


def offered_tools(tools: Any, choice: Any = None) -> set[str] | None:
    """Return the names of the tools that a request offers; None if they cannot be read.

    ``tools`` is the request's list of mappings of any provider, of functions, or of objects with a name.
    ``choice`` is its ``tool_choice``: "none" offers no tool, one that names tools offers these, and any other
    offers all.
    """
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        return None
    found: set[str] = set()
    for tool in tools:
        names = set(_names_of(tool))
        if not names:
            return None
        found |= names
    return _chosen(choice, found)


def _chosen(choice: Any, offered: set[str]) -> set[str]:
    if choice == "none" or (isinstance(choice, Mapping) and choice.get("type") == "none"):
        return set()
    if choice in _ALL:
        return offered
    return offered.intersection(_texts_in(choice)) or offered


def _names_of(tool: Any) -> Iterator[str]:
    """Yield the name of a tool, or of each tool that a mapping holds, without names in its parameters."""
    if not isinstance(tool, Mapping):
        name = tool if isinstance(tool, str) else getattr(tool, "name", getattr(tool, "__name__", None))
        if isinstance(name, str):
            yield name
        return
    name = tool.get("name", tool.get("title"))
    if name is None and isinstance(function := tool.get("function"), Mapping):  # chat completions
        name = function.get("name")
    if isinstance(name, str):
        yield name
        return
    held = [each for value in tool.values() for each in (value if isinstance(value, list) else [value])]
    inner = [name for each in held if isinstance(each, Mapping) for name in _names_of(each)]
    yield from inner or filter(None, [tool.get("type")])  # a tool of the provider has only a type


def _texts_in(choice: Any) -> Iterator[str]:
    """Yield all texts in a ``tool_choice``: among them are the names of the tools that it allows."""
    if isinstance(choice, str):
        yield choice
    elif isinstance(choice, Mapping):
        for value in choice.values():
            yield from _texts_in(value)
    elif isinstance(choice, Sequence):
        for value in choice:
            yield from _texts_in(value)
