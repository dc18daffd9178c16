"""Loops on a session, and tools of MCP servers, that run by a script."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from agentrt.calls import ToolCall
from agentrt.reports.report import SpeculationReport
from agentrt.turns.session import SpeculationSession

from .langchain_frameworks import run_created
from .scripted import SCHEMA, Script

MakeCall = Callable[[ToolCall], Any]


async def without_ids(script: Script) -> SpeculationReport | None:
    """Run a loop on a session whose calls have no ids."""
    look = script.declared(script.coroutine_function())
    if not script.speculative:
        return await _loop(script, None, lambda call: look(**call.arguments))
    async with SpeculationSession([look], [script]) as session:
        return await _loop(script, session, session.acall)


async def mcp(script: Script) -> SpeculationReport | None:
    """Run a loop on a session with the tool of an MCP server in this process."""
    from agentrt.adapters.mcp import speculable_tools

    async with _connected(script) as client:
        if not script.speculative:
            return await _loop(script, None, lambda call: client.call_tool(call.name, dict(call.arguments)))
        tools = await speculable_tools(client, trusted=True)
        async with SpeculationSession(tools, [script]) as session:
            return await _loop(script, session, session.acall)


async def langchain_mcp_adapters(script: Script) -> SpeculationReport | None:
    """Run an agent of ``create_agent`` with the tools that langchain-mcp-adapters loads from that server."""
    from agentrt.adapters.langchain import speculable_mcp_tools

    package: Any = importlib.import_module("langchain_mcp_adapters.tools")
    async with _connected(script) as session:
        tools = await package.load_mcp_tools(session)
        return await run_created(
            script, speculable_mcp_tools(tools, trusted=True) if script.speculative else tools
        )


async def _loop(
    script: Script, session: SpeculationSession | None, make_call: MakeCall
) -> SpeculationReport | None:
    """Let the script's model generate and make its calls by ``make_call``; return the session's report."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for made in range(script.turns):
        call = script.call(made)
        assert call is not None
        await _generate(script, session, messages, [call])
        messages.append({"role": "assistant", "content": f"calls {call.name}"})
        messages.append({"role": "user", "content": _text(await make_call(call))})
    script.transcript = messages
    return None if session is None else session.report()


async def _generate(
    script: Script,
    session: SpeculationSession | None,
    messages: Sequence[dict[str, Any]],
    calls: Sequence[ToolCall],
) -> None:
    if session is None:
        await script.agenerate()
        return
    with session.turn(messages, [SCHEMA]) as turn:
        await script.agenerate()
        turn.bind(calls)


def _text(result: Any) -> str:
    return result if isinstance(result, str) else str(result.content[0].text)


def _connected(script: Script) -> AbstractAsyncContextManager[Any]:
    """Connect a client to a server of the script's tool, with either major version of ``mcp``."""
    package: Any = importlib.import_module("mcp")
    hint = importlib.import_module("mcp.types").ToolAnnotations.model_validate({"readOnlyHint": True})
    look = script.coroutine_function()
    if hasattr(package, "Client"):
        server: Any = importlib.import_module("mcp.server.mcpserver").MCPServer("scripted")
        server.add_tool(look, annotations=hint)
        return package.Client(server)  # type: ignore[no-any-return]
    server = importlib.import_module("mcp.server.fastmcp").FastMCP("scripted")
    server.add_tool(look, annotations=hint)
    memory: Any = importlib.import_module("mcp.shared.memory")
    return memory.create_connected_server_and_client_session(server._mcp_server)  # type: ignore[no-any-return]
