"""agentrt for the tools of MCP servers: read-only tools of trusted servers.

::

    async with Client(server) as client:
        tools = await speculable_tools(client, trusted=True)
        async with SpeculationSession(tools, predictors) as session:
            ...

Works with versions 1 and 2 of the package ``mcp``. For the tools that ``langchain-mcp-adapters`` loads see
:func:`agentrt.adapters.langchain.speculable_mcp_tools`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Unpack

from agentrt.adapting import SpeculableKeywords, SpeculableOptions, SpeculableTool
from agentrt.argument_checks import check_setting
from agentrt.errors import ConfigurationError, MissingExtraError

from .server_tools import bind, check_trusted, only_reads, options_of, speculative_result

try:
    import mcp
    import mcp.types
except ModuleNotFoundError as error:
    raise MissingExtraError("mcp", "mcp") from error

__all__ = ["McpTool", "speculable_tools"]

_VERSION_2 = hasattr(mcp, "Client")


class McpClient(Protocol):
    """A connected client: ``mcp.Client``, ``mcp.ClientSession`` or ``fastmcp.Client``."""

    def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Awaitable[Any]:
        """Call a tool of the server."""


class McpTool:
    """One tool of a connected MCP server, ready for a :class:`~agentrt.SpeculationSession`.

    A call of it by the session returns what the client's ``call_tool`` returns, such as
    :class:`mcp.types.CallToolResult`.
    """

    def __init__(self, client: McpClient, tool: mcp.types.Tool, options: SpeculableOptions) -> None:
        """``tool`` is as the server listed it."""
        self.name = tool.name
        self.schema: dict[str, Any] = {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": _field(tool, "input_schema"),
            },
        }
        """The tool in the shape of OpenAI's function tools."""
        self.__speculable__ = SpeculableTool(
            tool.name,
            bind=bind,
            call=None,
            acall=functools.partial(client.call_tool, tool.name),
            speculative_acall=functools.partial(speculative_result, _speculative_call(client), tool.name),
            options=options,
        )


async def speculable_tools(
    client: McpClient, *, trusted: bool, **options: Unpack[SpeculableKeywords]
) -> list[McpTool]:
    """Return the tools of a connected server that can be speculated on: those with a true ``readOnlyHint``.

    ``client`` is an ``mcp.Client``, ``mcp.ClientSession`` or ``fastmcp.Client``. The hint is the server's own
    claim, so it counts only for a server that you trust. A question of the server to the user fails a
    speculative run; but a client of fastmcp asks it, and a server that asks in the middle of a call, as
    protocols before 2026-07-28 allow, also asks in the middle of a speculative one: do not use this there.

    A call of another tool of the server outdates the speculations from before it, unless ``invalidated_by``
    says which tools do. A tool with a true ``openWorldHint`` passes its arguments on to others: it
    ``discloses`` them, unless that option is given. ``options`` are those of :func:`agentrt.speculable`, for
    all tools. Call other tools as before, by ``client.call_tool``.

    Raises:
        ConfigurationError: ``client`` is none or not connected, the server is not trusted, or an option is
            unknown or has an invalid value.
    """
    check_trusted(trusted)
    listed = await _list(_session(client))
    writers = tuple(tool.name for tool in listed if not only_reads(tool.annotations))
    given = {"invalidated_by": writers, **dict[str, Any](options)}
    return [
        McpTool(client, tool, options_of(tool.annotations, given))
        for tool in listed
        if only_reads(tool.annotations)
    ]


def _session(client: object) -> mcp.ClientSession:
    try:
        session = getattr(client, "session", client)
    except RuntimeError as error:
        raise ConfigurationError(f"client: {error}. Use it in an async with block.") from error
    wanted = "a connected mcp.Client, mcp.ClientSession or fastmcp.Client"
    check_setting("client", session, mcp.ClientSession, wanted)
    assert isinstance(session, mcp.ClientSession)
    return session


async def _list(session: mcp.ClientSession) -> list[mcp.types.Tool]:
    """Return all tools of the server, of all pages of its list."""
    tools: list[mcp.types.Tool] = []
    cursor: str | None = None
    while True:
        page = await _page(session, cursor)
        tools += page.tools
        cursor = _field(page, "next_cursor")
        if not cursor:
            return tools


async def _page(session: Any, cursor: str | None) -> mcp.types.ListToolsResult:
    if _VERSION_2:
        params = None if cursor is None else mcp.types.PaginatedRequestParams(cursor=cursor)
        return await session.list_tools(params=params)  # type: ignore[no-any-return]
    return await session.list_tools(cursor)  # type: ignore[no-any-return]


def _field(value: Any, name: str) -> Any:
    """Return a field of one of the protocol's types, by its name in version 2; version 1 has camelCase."""
    if _VERSION_2:
        return getattr(value, name)
    first, *rest = name.split("_")
    return getattr(value, first + "".join(map(str.capitalize, rest)))


def _speculative_call(client: McpClient) -> Callable[..., Awaitable[Any]]:
    """Return how a speculative run calls a tool: without showing a server's questions to the user."""
    if _VERSION_2 and isinstance(client, (mcp.Client, mcp.ClientSession)):
        return functools.partial(_session(client).call_tool, allow_input_required=True)
    return client.call_tool
