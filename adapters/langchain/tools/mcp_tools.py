"""Tools of MCP servers that were loaded by ``langchain-mcp-adapters``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from langchain_core.tools import BaseTool

from agentrt.adapting import SpeculableKeywords, speculable_tool
from agentrt.argument_checks import check_collection, check_setting

from ...server_tools import check_trusted, only_reads, options_of
from .tools import make_speculable


def speculable_mcp_tools(
    tools: Iterable[BaseTool], *, trusted: bool, **options: Unpack[SpeculableKeywords]
) -> list[BaseTool]:
    """Return the tools of MCP servers, with those speculable that have a true ``readOnlyHint``.

    ::

        tools = speculable_mcp_tools(await client.get_tools(server_name="notes"), trusted=True)

    The hint is the server's own claim, so it counts only for servers that you trust; for a tool of another
    one use ``speculable(tool)``. All other tools are returned as they are, and so are tools that are
    speculable already. A call of a tool without the hint outdates the speculations from before it, unless
    ``invalidated_by`` says which tools do. A tool with a true ``openWorldHint`` passes its arguments on to
    others: it ``discloses`` them, unless that option is given.

    ``options`` are those of :func:`agentrt.speculable`, for all tools.

    Raises:
        ConfigurationError: the servers are not trusted, ``tools`` are none, or an option is unknown or has an
            invalid value.
    """
    check_trusted(trusted)
    check_collection("tools", tools, "the list of tools that langchain-mcp-adapters has loaded")
    given = list(tools)
    for tool in given:
        check_setting("tools", tool, BaseTool, "the tools that langchain-mcp-adapters has loaded")
    writers = tuple(tool.name for tool in given if not only_reads(tool.metadata))
    chosen = {"invalidated_by": writers, **dict[str, Any](options)}
    return [
        make_speculable(tool, options_of(tool.metadata, chosen))
        if only_reads(tool.metadata) and speculable_tool(tool) is None
        else tool
        for tool in given
    ]
