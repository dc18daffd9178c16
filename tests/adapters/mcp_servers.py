"""MCP servers in this process, and clients of them, with either major version of the package ``mcp``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp
from mcp.types import ToolAnnotations

VERSION_2 = hasattr(mcp, "Client")


def server_of(tools: Mapping[Callable[..., Any], bool | None]) -> Any:
    """Return a server of these functions, each with its read-only hint: None for a tool without one."""
    server = _new_server()
    for function, only_reads in tools.items():
        server.add_tool(function, annotations=None if only_reads is None else _annotations(only_reads))
    return server


def _new_server() -> Any:
    if VERSION_2:
        from mcp.server.mcpserver import MCPServer

        return MCPServer("notes")
    from mcp.server.fastmcp import FastMCP

    return FastMCP("notes")


def open_world_server(function: Callable[..., Any], hint: bool | None) -> Any:
    """Return a server of one function that only reads, with its open-world hint."""
    server = _new_server()
    hints = {"readOnlyHint": True, "openWorldHint": hint}
    server.add_tool(function, annotations=ToolAnnotations.model_validate(hints))
    return server


def _annotations(only_reads: bool) -> ToolAnnotations:
    return ToolAnnotations.model_validate({"readOnlyHint": only_reads})


def connected(server: Any) -> AbstractAsyncContextManager[Any]:
    """Return what connects a client to the server: ``mcp.Client`` where there is one, else a session."""
    if VERSION_2:
        return mcp.Client(server)
    from mcp.shared.memory import create_connected_server_and_client_session

    return create_connected_server_and_client_session(server._mcp_server)  # type: ignore[no-any-return]


def is_error(result: Any) -> bool:
    """Return the field of a result that says whether the tool failed."""
    return bool(result.is_error if VERSION_2 else result.isError)
