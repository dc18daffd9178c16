"""agentrt for the tools of MCP servers: read-only tools of trusted servers.

::

    async with Client(server) as client:
        tools = await speculable_tools(client, trusted=True)
        async with SpeculationSession(tools, predictors) as session:
            ...
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Unpack

from agentrt.argument_checks import check_setting
from agentrt.errors import ConfigurationError, MissingExtraError, SpeculationError
from agentrt.tools.speculable_tool import Invocation, SpeculableKeywords, SpeculableOptions, SpeculableTool

try:
    import mcp
except ModuleNotFoundError as error:
    raise MissingExtraError("mcp", "mcp") from error

__all__ = ["McpTool", "speculable_tools"]


class McpTool:
    """One tool of a connected MCP server, ready for a :class:`~agentrt.SpeculationSession`.

    A call of it by the session returns the server's :class:`mcp.types.CallToolResult`.
    """

    def __init__(self, client: mcp.Client, tool: mcp.Tool, options: SpeculableOptions) -> None:
        """``tool`` is as ``client`` listed it."""
        self.name = tool.name
        self.schema: dict[str, Any] = {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.input_schema,
            },
        }
        """The tool in the shape of OpenAI's function tools."""
        self.__speculable__ = SpeculableTool(
            tool.name,
            bind=_bind,
            call=None,
            acall=functools.partial(client.call_tool, tool.name),
            speculative_acall=functools.partial(_speculate, client, tool.name),
            options=options,
        )


async def speculable_tools(
    client: mcp.Client, *, trusted: bool, **options: Unpack[SpeculableKeywords]
) -> list[McpTool]:
    """Return the tools of a connected server that can be speculated on: those with a true ``readOnlyHint``.

    The hint is the server's own claim, so it counts only for a server that you trust. A question of the
    server to the user fails a speculative run; but a server that asks in the middle of a call, as protocols
    before 2026-07-28 allow, also asks in the middle of a speculative one: do not use this with such a server.

    ``options`` are those of :func:`agentrt.speculable`, for all tools. Call other tools as before, by
    ``client.call_tool``.

    Raises:
        ConfigurationError: ``client`` is none, the server is not trusted, or an option is unknown or has an
            invalid value.
    """
    if trusted is not True:
        raise ConfigurationError(
            "an untrusted server can claim anything of its tools. Pass trusted=True if you trust it, or do "
            "not speculate on its tools."
        )
    check_setting("client", client, mcp.Client, "a connected mcp.Client")
    parsed = SpeculableOptions(**dict[str, Any](options))
    found: list[McpTool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [
            McpTool(client, tool, parsed)
            for tool in page.tools
            if tool.annotations is not None and tool.annotations.read_only_hint is True
        ]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _bind(arguments: Mapping[str, Any]) -> Invocation:
    # The server validates the arguments: its error is a result that the model must see.
    return Invocation(kwargs={"arguments": dict(arguments)}, named=arguments)


async def _speculate(client: mcp.Client, name: str, arguments: dict[str, Any]) -> mcp.types.CallToolResult:
    # Not client.call_tool, which shows a server's questions to the user: the model may never make this call.
    result = await client.session.call_tool(name, arguments, allow_input_required=True)
    if not isinstance(result, mcp.types.CallToolResult) or result.is_error:
        raise SpeculationError(
            f"{name} failed or needs the user's input. It runs again when the model calls it."
        )
    return result
