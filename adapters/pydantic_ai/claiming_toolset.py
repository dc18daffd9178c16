"""Toolsets whose calls claim the speculations of their run."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.tools import AgentDepsT, RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

CallAnswer = Callable[
    [Mapping[str, Any], RunContext[Any], Callable[[], Awaitable[Any]]], Coroutine[Any, Any, Any]
]
"""Answers a call with these arguments from its speculation, or else by the function."""


@dataclass(slots=True)
class ToolRole:
    """What answers the calls of a tool; None before the first step of its run.

    All copies that other toolsets make of a tool share it.
    """

    answer: CallAnswer | None = None


@dataclass(kw_only=True)
class ClaimingTool(ToolsetTool[AgentDepsT]):
    """A tool of one of the user's toolsets, within a :class:`ClaimingToolset`."""

    source: ToolsetTool[AgentDepsT]
    """The tool as the user's toolset lists it."""
    leaf: ClaimingToolset[AgentDepsT]
    leaf_name: str
    """Its name in the user's toolset, which toolsets around it may change."""
    role: ToolRole = field(default_factory=ToolRole)

    async def run(
        self,
        arguments: dict[str, Any],
        context: RunContext[AgentDepsT],
        definition: ToolDefinition,
    ) -> Any:
        """Run the tool itself; ``definition`` is as toolsets around it may have changed it."""
        source_id = self.source.tool_def.toolset_id
        own = replace(definition, name=self.leaf_name, toolset_id=source_id)
        tool = replace(self.source, tool_def=own)
        return await self.leaf.wrapped.call_tool(self.leaf_name, arguments, context, tool)


@dataclass
class ClaimingToolset(WrapperToolset[AgentDepsT]):
    """One of the user's toolsets, whose calls claim the speculations of their run.

    It lies below all toolsets that change or stop calls, so these see the real calls and no others.
    """

    @property
    def tool_name_conflict_hint(self) -> str:
        """The hint of the user's toolset."""
        return self.wrapped.tool_name_conflict_hint

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools of the user's toolset."""
        return {
            name: ClaimingTool(
                toolset=tool.toolset,
                tool_def=tool.tool_def,
                max_retries=tool.max_retries,
                args_validator=tool.args_validator,
                args_validator_func=tool.args_validator_func,
                source=tool,
                leaf=self,
                leaf_name=name,
            )
            for name, tool in (await self.wrapped.get_tools(ctx)).items()
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],
    ) -> Any:
        """Answer the call from its speculation, or else run the tool."""
        assert isinstance(tool, ClaimingTool)
        run = functools.partial(tool.run, tool_args, ctx, tool.tool_def)
        if tool.role.answer is None:
            return await run()
        return await tool.role.answer(tool_args, ctx, run)


def claiming_tool(tool: ToolsetTool[Any]) -> ClaimingTool[Any] | None:
    """Return the tool of a :class:`ClaimingToolset` that ``tool`` leads to; None if it leads to none."""
    inner: Any = tool
    while inner is not None and not isinstance(inner, ClaimingTool):
        inner = getattr(inner, "source_tool", None)  # a combined toolset's
    return inner


def toolsets_around(leaf: AbstractToolset[Any], root: AbstractToolset[Any]) -> list[Any] | None:
    """Return the toolsets that a call passes from ``root`` on to ``leaf``; None if it does not lead there."""
    if root is leaf:
        return []
    for toolset in _inner(root) or ():
        between = toolsets_around(leaf, toolset)
        if between is not None:
            return [root, *between]
    return None


def leaves(root: AbstractToolset[Any]) -> list[AbstractToolset[Any]]:
    """Return the toolsets in ``root`` that hold no others."""
    inner = _inner(root)
    return [leaf for toolset in inner for leaf in leaves(toolset)] if inner is not None else [root]


def _inner(root: AbstractToolset[Any]) -> Sequence[AbstractToolset[Any]] | None:
    """Return the toolsets that a toolset holds; None if it is not made to hold any."""
    if isinstance(root, WrapperToolset):
        return [root.wrapped]
    found: Sequence[AbstractToolset[Any]] | None = getattr(root, "toolsets", None)
    return found
