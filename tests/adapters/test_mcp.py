"""Tools of a real MCP server, in this process: what runs early, and what never does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, types
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

from agentrt import SpeculationSession, ToolCall
from agentrt.adapters.mcp import McpTool, speculable_tools
from agentrt.errors import ConfigurationError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time

READ_ONLY = ToolAnnotations(read_only_hint=True)


class Notes:
    """A server with a tool that reads, one that writes, and one that says nothing of itself."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.server = MCPServer("notes")
        self.server.add_tool(self.find, annotations=READ_ONLY)
        self.server.add_tool(self.fail, annotations=READ_ONLY)
        self.server.add_tool(self.delete, annotations=ToolAnnotations(read_only_hint=False))
        self.server.add_tool(self.mystery)

    async def find(self, query: str, limit: int = 3) -> str:
        """Find notes."""
        self.runs.append(query)
        await asyncio.sleep(30)
        return f"found {query} {limit}"

    async def fail(self, query: str) -> str:
        self.runs.append(query)
        raise LookupError(query)

    async def delete(self, query: str) -> str:
        return "deleted"

    async def mystery(self) -> str:
        return ""


def speculated(call: ToolCall, drafts: list[ToolCall], **options: Any) -> tuple[Any, list[str], float, Any]:
    """Draft, generate for 40 seconds, make the call; return its result, the runs, the time, the report."""
    notes = Notes()

    async def main() -> tuple[Any, list[str], float, Any]:
        async with Client(notes.server) as client:
            tools = await speculable_tools(client, trusted=True, **options)
            async with SpeculationSession(tools, [ScriptedSpeculator(drafts, delay=5)]) as session:
                began = asyncio.get_running_loop().time()
                with session.turn([], [tool.schema for tool in tools]) as turn:
                    await asyncio.sleep(40)
                    turn.bind([call])
                result = await session.acall(call)
                took = asyncio.get_running_loop().time() - began
            return result, notes.runs, took, session.report()

    return run_in_virtual_time(main)


def test_only_tools_that_say_they_only_read_are_marked() -> None:
    async def main() -> list[McpTool]:
        async with Client(Notes().server) as client:
            return await speculable_tools(client, trusted=True)

    find, fail = asyncio.run(main())
    assert (find.name, fail.name) == ("find", "fail")
    assert find.schema["function"]["description"] == "Find notes."
    assert set(find.schema["function"]["parameters"]["properties"]) == {"query", "limit"}


def test_a_server_that_is_not_trusted_marks_nothing() -> None:
    async def main() -> None:
        async with Client(Notes().server) as client:
            with pytest.raises(ConfigurationError, match="trust"):
                await speculable_tools(client, trusted=False)

    asyncio.run(main())


def test_a_predicted_call_runs_while_the_model_writes() -> None:
    call = ToolCall("find", {"query": "a"}, "1")
    result, runs, took, report = speculated(call, [call])
    assert result.content[0].text == "found a 3"
    assert (runs, took, report.total.claims) == (["a"], 40, 1)


def test_another_call_runs_when_it_is_made() -> None:
    result, runs, took, report = speculated(
        ToolCall("find", {"query": "b"}, "1"), [ToolCall("find", {"query": "a"})]
    )
    assert result.content[0].text == "found b 3"
    assert (runs, took, report.total.wasted) == (["a", "b"], 70, 1)


def test_a_failed_speculation_is_a_miss_and_the_model_gets_the_real_result() -> None:
    call = ToolCall("fail", {"query": "a"}, "1")
    result, runs, _, report = speculated(call, [call])
    assert result.is_error
    assert runs == ["a", "a"]
    assert report.turns[0].calls[0].reason.startswith("the speculation failed")


def test_a_server_that_has_a_question_puts_it_only_for_the_real_call() -> None:
    asked: list[float] = []
    server = MCPServer("asking")

    async def find(query: str, ctx: Context) -> types.CallToolResult | types.InputRequiredResult:
        if ctx.input_responses:
            return types.CallToolResult(content=[types.TextContent(type="text", text=f"found {query}")])
        nothing = {"type": "object", "properties": {}}
        question = types.ElicitRequestFormParams(message="may I?", requested_schema=nothing)
        requests = {"may": types.ElicitRequest(params=question)}
        return types.InputRequiredResult(input_requests=requests, request_state="asked")

    server.add_tool(find, annotations=READ_ONLY)

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(asyncio.get_running_loop().time())
        return types.ElicitResult(action="accept", content={})

    async def main() -> Any:
        call = ToolCall("find", {"query": "a"}, "1")
        async with Client(server, elicitation_callback=answer) as client:
            tools = await speculable_tools(client, trusted=True)
            async with SpeculationSession(tools, [ScriptedSpeculator([call])]) as session:
                with session.turn([], []) as turn:
                    await asyncio.sleep(40)
                    turn.bind([call])
                return await session.acall(call)

    assert run_in_virtual_time(main).content[0].text == "found a"
    assert asked == [40]


def test_options_hold_for_all_of_them() -> None:
    call = ToolCall("find", {"query": "a"}, "1")
    _, runs, _, report = speculated(call, [call], timeout=10)
    assert runs == ["a", "a"]
    assert report.turns[0].calls[0].reason == "the speculation took longer than 10.0 s"


def test_a_guard_sees_the_arguments_of_the_call() -> None:
    seen: list[Any] = []

    def guard(arguments: Any) -> bool:
        seen.append(arguments)
        return False

    find = ToolCall("find", {"query": "a"}, "1")
    _, runs, took, _ = speculated(find, [find], guard=guard)
    assert (seen, runs, took) == ([{"query": "a"}], ["a"], 70)
