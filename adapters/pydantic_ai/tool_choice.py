"""Which tools of an agent may run speculatively, and with what options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_ai.tools import RunContext, ToolDefinition, ToolSelector, matches_tool_selector
from pydantic_ai.toolsets import FunctionToolset

from agentrt.tools.speculable import speculable_tool
from agentrt.tools.speculable_tool import SpeculableOptions

from .claiming_toolset import ClaimingTool


@dataclass(frozen=True, slots=True)
class SpeculableTools:
    """The tools that a selector selects, with ``options``, and those that are declared speculable."""

    selector: ToolSelector[Any]
    options: SpeculableOptions

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
