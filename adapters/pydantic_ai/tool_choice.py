"""Which tools of an agent may run speculatively, and with what options; also those that code calls."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.tools import RunContext, ToolDefinition, ToolSelector, matches_tool_selector
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool

from agentrt.adapting import SpeculableOptions, speculable_tool
from agentrt.errors import ConfigurationError

from .claiming_toolset import ClaimingTool, leaves


@dataclass(frozen=True, slots=True)
class SpeculableTools:
    """The tools that a selector selects, with ``options``, and those that are declared speculable."""

    selector: ToolSelector[Any]
    options: SpeculableOptions

    def __post_init__(self) -> None:
        """Raise :class:`ConfigurationError` if the selector is none."""
        if not _is_selector(self.selector):
            raise ConfigurationError(
                f"tools: {self.selector!r} selects no tools. Give a list of their names, a dict of their "
                "metadata, a function of the run's context and the tool's definition, or 'all'."
            )

    def check_names(self, shown: Collection[str], root: AbstractToolset[Any]) -> None:
        """Raise :class:`ConfigurationError` if the selector names a tool that the agent does not have.

        ``shown`` are the tools that the model sees in the present step, ``root`` has all of them. Nothing is
        raised if there may be others: those that a step hides, or of a toolset that lists them later.
        """
        if isinstance(self.selector, (str, dict)) or callable(self.selector):
            return
        unknown = [name for name in self.selector if name not in shown]
        if unknown and _all_shown(shown, root):
            raise ConfigurationError(
                f"tools: the agent has no tool {unknown[0]!r}. Name some of {', '.join(sorted(shown))}."
            )

    async def options_of(
        self, tool: ClaimingTool[Any], definition: ToolDefinition, context: RunContext[Any]
    ) -> SpeculableOptions | None:
        """Return the options of a tool; None if it is not speculable.

        ``definition`` is the tool's as the model sees it. A declaration of the function goes before the
        selector.
        """
        if definition.kind not in ("function", "unapproved"):
            return None
        declared = _declared_options(tool)
        if declared is not None:
            return declared
        return self.options if await matches_tool_selector(self.selector, context, definition) else None


def _declared_options(tool: ClaimingTool[Any]) -> SpeculableOptions | None:
    toolset = tool.leaf.wrapped
    if not isinstance(toolset, FunctionToolset):
        return None
    name = getattr(tool.source, "original_name", None) or tool.leaf_name  # its prepare= may have renamed it
    known = toolset.tools.get(name)
    described = None if known is None else speculable_tool(known.function)
    return None if described is None else described.options


def _is_selector(selector: object) -> bool:
    if callable(selector):
        return not isinstance(selector, type) and _takes_two(selector)
    if isinstance(selector, str):
        return selector == "all"
    if isinstance(selector, Sequence):
        return all(isinstance(name, str) for name in selector)
    return isinstance(selector, dict)


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def _all_shown(shown: Collection[str], root: AbstractToolset[Any]) -> bool:
    listed = [leaf.tools if isinstance(leaf, FunctionToolset) else None for leaf in leaves(root)]
    return None not in listed and sum(len(tools or ()) for tools in listed) <= len(shown)


def reachable_tools(
    shown: Mapping[str, ToolsetTool[Any]],
) -> Iterator[tuple[str, ToolsetTool[Any], ToolsetTool[Any] | None]]:
    """Yield each tool that an answer can lead to: its name, itself, and the tool whose code calls it, if any.

    ``shown`` are the tools that the model sees. The name of a tool that code calls is the one it has there.
    """
    yield from ((name, tool, None) for name, tool in shown.items())
    for runner in shown.values():
        for name, tool in _called_by(runner).items():
            if name not in shown:
                yield name, tool, runner


def _called_by(runner: ToolsetTool[Any]) -> dict[str, ToolsetTool[Any]]:
    """Return the tools that the code of a call can call, which `CodeMode` keeps on its tool."""
    if runner.tool_def.kind != "function":  # its own calls have to be approved
        return {}
    tools, names = getattr(runner, "wrapped_tools", None), getattr(runner, "callable_defs", None)
    if not isinstance(tools, Mapping) or not isinstance(names, Mapping):
        return {}
    renamed = getattr(runner, "sanitized_to_original", {})
    found = {name: tools.get(renamed.get(name, name)) for name in names}
    return {name: tool for name, tool in found.items() if tool is not None}
