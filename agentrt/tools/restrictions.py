"""What a turn offers the model, and what its tools must not do before they are called and approved."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .speculable_tool import SpeculableTool

logger = logging.getLogger("agentrt")
_UNREADABLE = "the guards of the run could not be read"


@dataclass(frozen=True, slots=True)
class Guards:
    """What stands between the model's calls and their tools in a run, by the names of the tools.

    ``calls`` says why a call has to be approved before its tool runs: by a person, by middleware or by a
    hook. A tool with ``before_approval=True`` may run before; its result waits for the approval. ``results``
    are the tools whose result may still be changed or rejected: no model request is sent ahead with it, and
    no engine gets it.
    """

    calls: Mapping[str, str] = field(default_factory=dict)
    results: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The tools of a turn that must not run speculatively, and those whose results must wait for approval."""

    refused: Mapping[str, str] = field(default_factory=dict)
    """Names of tools that must not run speculatively in this turn, each with the reason."""
    unapproved: frozenset[str] = frozenset()
    """Names of tools whose result must not leave the process before their call is approved."""

    def permitted(self, tools: Iterable[str]) -> list[str]:
        """Return those of ``tools`` that may run speculatively."""
        return [name for name in tools if name not in self.refused]


def restrictions(
    tools: Mapping[str, SpeculableTool], refused: Mapping[str, str], guards: Callable[[], Guards]
) -> Restrictions:
    """Return the restrictions on ``tools``: those ``refused``, each with the reason, and the guarded ones.

    If ``guards`` raises or returns anything else, each tool has one.
    """
    try:
        found = guards()
        if not isinstance(found, Guards):
            raise TypeError(f"they are no agentrt.adapting.Guards but an object of {type(found).__name__}")
    except Exception as error:  # noqa: BLE001 - unknown guards count as guards
        _warn_of(type(error).__name__, str(error))
        found = Guards(dict.fromkeys(tools, _UNREADABLE))
    before_approval = {name for name, tool in tools.items() if tool.options.before_approval}
    withheld = {name: why for name, why in found.calls.items() if name not in before_approval}
    return Restrictions({**withheld, **refused}, frozenset({*found.calls, *found.results}))


@functools.lru_cache(64)  # once for each error; the report has it for each turn
def _warn_of(error: str, said: str) -> None:
    logger.warning(
        "no tool runs speculatively, but those with before_approval=True: %s (%s: %s). If the framework has "
        "changed, use a version of it that agentrt's constraints.txt names; mend an adapter of your own.",
        _UNREADABLE,
        error,
        said,
    )


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
