"""agentrt for the tools of MCP servers: read-only tools of trusted servers.

::

    async with Client(server) as client:
        tools = await speculable_tools(client, trusted=True)
        async with SpeculationSession(tools, predictors) as session:
            ...

Works with versions 1 and 2 of the package ``mcp``; tasks (:class:`TasksExtension`) need version 2. For the
tools that ``langchain-mcp-adapters`` loads see :func:`agentrt.adapters.langchain.speculable_mcp_tools`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import anyio

from agentrt.adapting import SpeculableKeywords, SpeculableOptions, SpeculableTool
from agentrt.argument_checks import check_setting
from agentrt.errors import ConfigurationError, MissingExtraError, SpeculationError

from .server_tools import bind, check_trusted, only_reads, options_of, speculative_result

try:
    import mcp
    import mcp.client
    import mcp.types
except ModuleNotFoundError as error:
    raise MissingExtraError("mcp", "mcp") from error

if TYPE_CHECKING:
    from .mcp_tasks import TasksExtension

__all__ = ["McpTool", "TasksExtension", "speculable_tools"]

_VERSION_2 = hasattr(mcp, "Client")


def __getattr__(name: str) -> Any:
    if name != "TasksExtension":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not _VERSION_2:
        raise MissingExtraError("version 2 of mcp", "mcp", requirement="mcp>=2")
    from .mcp_tasks import TasksExtension

    return TasksExtension


class McpClient(Protocol):
    """A connected client: ``mcp.Client``, ``mcp.ClientSession`` or ``fastmcp.Client``."""

    def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Awaitable[Any]:
        """Call a tool of the server."""


class McpTool:
    """One tool of a connected MCP server, ready for a :class:`~agentrt.SpeculationSession`.

    A call of it by the session returns what the client's ``call_tool`` returns, such as
    :class:`mcp.types.CallToolResult`.
    """

    def __init__(
        self, client: McpClient, tool: mcp.types.Tool, options: SpeculableOptions, listing: Listing
    ) -> None:
        """``tool`` is as the server listed it in ``listing``."""
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
            speculative_acall=functools.partial(
                speculative_result, functools.partial(_speculative_call, client, listing), tool.name
            ),
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

    A list of tools with a time to live (``ttlMs``) is read again after it, before the next speculation: a
    tool that the server no longer declares read-only runs only when it is called.

    Raises:
        ConfigurationError: ``client`` is none or not connected, the server is not trusted, or an option is
            unknown or has an invalid value.
    """
    check_trusted(trusted)
    listing = Listing(client)
    listed = await listing.read()
    writers = tuple(tool.name for tool in listed if not only_reads(tool.annotations))
    given = {"invalidated_by": writers, **dict[str, Any](options)}
    return [
        McpTool(client, tool, options_of(tool.annotations, given), listing)
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


class Listing:
    """What a server says of its tools, for as long as it says that this holds."""

    def __init__(self, client: McpClient) -> None:
        """``client`` is connected. Nothing is read yet."""
        # A client of version 2 keeps lists itself, within the scope that the server gives them.
        session = _session(client)
        self._source: Any = client if _VERSION_2 and isinstance(client, mcp.Client) else session
        self._reading = anyio.Lock()
        self._readers: frozenset[str] = frozenset()
        self._stale_at: float | None = None

    async def read(self, *, again: bool = False) -> list[mcp.types.Tool]:
        """Return all tools of the server, of all pages of its list; ``again`` not as the client keeps it."""
        tools: list[mcp.types.Tool] = []
        cursor, ttls = None, list[int]()
        while True:
            page = await self._page(cursor, again)
            tools += page.tools
            ttls.append(getattr(page, "ttl_ms", 0))
            cursor = _field(page, "next_cursor")
            if not cursor:
                break
        self._readers = frozenset(tool.name for tool in tools if only_reads(tool.annotations))
        # Without a time, or with 0, which servers send that say nothing, it holds as long as the connection.
        self._stale_at = anyio.current_time() + min(ttls) / 1000 if min(ttls) > 0 else None
        return tools

    async def check(self, name: str) -> None:
        """Check that the server still declares the tool read-only, if its list has become stale.

        Raises:
            SpeculationError: it does not, or has the tool no longer.
        """
        async with self._reading:
            if self._stale_at is not None and anyio.current_time() >= self._stale_at:
                await self.read(again=True)
        if name not in self._readers:
            raise SpeculationError(
                f"the server no longer declares {name} read-only. It runs when it is called."
            )

    async def _page(self, cursor: str | None, again: bool) -> Any:
        if _VERSION_2 and isinstance(self._source, mcp.Client):
            return await self._source.list_tools(cursor=cursor, cache_mode="refresh" if again else "use")
        if _VERSION_2:
            params = None if cursor is None else mcp.types.PaginatedRequestParams(cursor=cursor)
            return await self._source.list_tools(params=params)
        return await self._source.list_tools(cursor)


def _field(value: Any, name: str) -> Any:
    """Return a field of one of the protocol's types, by its name in version 2; version 1 has camelCase."""
    if _VERSION_2:
        return getattr(value, name)
    first, *rest = name.split("_")
    return getattr(value, first + "".join(map(str.capitalize, rest)))


async def _speculative_call(client: McpClient, listing: Listing, name: str, arguments: dict[str, Any]) -> Any:
    """Return the result of a speculative call, without showing a server's questions to the user.

    Raises:
        SpeculationError: the tool is no longer declared read-only, or its result is of an extension that the
            client does not have.
    """
    await listing.check(name)
    if not (_VERSION_2 and isinstance(client, (mcp.Client, mcp.ClientSession))):
        return await client.call_tool(name, arguments)
    session = _session(client)
    result = await session.call_tool(name, arguments, allow_input_required=True, allow_claimed=True)
    if isinstance(result, mcp.types.CallToolResult | mcp.types.InputRequiredResult):
        return result
    extensions: Sequence[Any] = getattr(client, "extensions", None) or ()
    for claim in (claim for extension in extensions for claim in extension.claims()):
        if type(result) is claim.model:
            context = mcp.client.ClaimContext(session=session, tool_name=name, read_timeout_seconds=None)
            final = await claim.resolve(result, context)
            if not final.is_error:  # as the client does for a real call
                await session.validate_tool_result(name, final)
            return final
    raise SpeculationError(
        f"{name} has answered with a {type(result).__name__}. Use an mcp.Client that has the extension."
    )
