"""Tools of a real MCP server, in this process: what runs early, and what never does."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp
import pytest
from mcp import types

from agentrt import SpeculationSession, ToolCall
from agentrt.adapters.mcp import McpTool, speculable_tools
from agentrt.errors import ConfigurationError, MissingExtraError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.mcp_servers import VERSION_2, connected, is_error, open_world_server, server_of

pytestmark = pytest.mark.anyio

if VERSION_2:
    from mcp.server.caching import CacheHint
    from mcp.server.mcpserver import Context, MCPServer


class Notes:
    """A server with a tool that reads, one that writes, and one that says nothing of itself."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.server = server_of({self.find: True, self.fail: True, self.delete: False, self.mystery: None})

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
        async with connected(notes.server) as client:
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
        async with connected(Notes().server) as client:
            return await speculable_tools(client, trusted=True)

    find, fail = asyncio.run(main())
    assert (find.name, fail.name) == ("find", "fail")
    assert find.schema["function"]["description"] == "Find notes."
    assert set(find.schema["function"]["parameters"]["properties"]) == {"query", "limit"}


async def test_a_server_that_is_not_trusted_marks_nothing() -> None:
    async with connected(Notes().server) as client:
        with pytest.raises(ConfigurationError, match="trust"):
            await speculable_tools(client, trusted=False)


@pytest.mark.parametrize(
    ("hint", "options", "discloses"),
    [
        (True, {}, True),
        (False, {}, False),
        (None, {}, False),
        (True, {"discloses": False}, False),
        (None, {"discloses": True}, True),
    ],
)
def test_a_tool_of_the_open_world_discloses(
    hint: bool | None, options: dict[str, Any], discloses: bool
) -> None:
    async def find(query: str) -> str:
        return query

    async def main() -> list[McpTool]:
        async with connected(open_world_server(find, hint)) as client:
            return await speculable_tools(client, trusted=True, **options)

    (tool,) = asyncio.run(main())
    assert tool.__speculable__.options.discloses is discloses


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
    assert is_error(result)
    assert runs == ["a", "a"]
    assert report.turns[0].calls[0].reason.startswith("the speculation failed")


@pytest.mark.skipif(not VERSION_2, reason="version 1 of mcp has no results that require input")
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

    server.add_tool(find, annotations=types.ToolAnnotations(read_only_hint=True))

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(asyncio.get_running_loop().time())
        return types.ElicitResult(action="accept", content={})

    async def main() -> Any:
        call = ToolCall("find", {"query": "a"}, "1")
        async with mcp.Client(server, elicitation_callback=answer) as client:
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


def test_a_call_of_another_tool_of_the_server_outdates_what_was_read_before_it() -> None:
    notes = Notes()

    async def main() -> tuple[Any, Any]:
        find, delete = ToolCall("find", {"query": "a"}, "1"), ToolCall("delete", {"query": "a"}, "2")
        async with connected(notes.server) as client:
            tools = await speculable_tools(client, trusted=True)
            async with SpeculationSession(tools, [ScriptedSpeculator([find])]) as session:
                with session.turn([], []) as turn:
                    await asyncio.sleep(40)
                    turn.bind([delete, find])
                await client.call_tool("delete", {"query": "a"})
                return await session.acall(find), session.report()

    result, report = run_in_virtual_time(main)
    assert result.content[0].text == "found a 3"
    assert notes.runs == ["a", "a"]
    assert report.turns[0].calls[0].reason == "delete was called meanwhile"


def test_all_pages_of_the_list_are_read() -> None:
    async def main() -> list[str]:
        async with connected(Notes().server) as client:
            session = client.session if VERSION_2 else client
            whole = session.list_tools
            asked: list[Any] = []

            async def page(cursor: str | None = None, *, params: Any = None) -> Any:
                cursor = params.cursor if params is not None else cursor
                asked.append(cursor)
                listed = await whole()
                listed.tools = listed.tools[:1] if cursor is None else listed.tools[1:]
                setattr(listed, "next_cursor" if VERSION_2 else "nextCursor", None if cursor else "2")
                return listed

            session.list_tools = page
            names = [tool.name for tool in await speculable_tools(client, trusted=True)]
            assert asked == [None, "2"]
            return names

    assert asyncio.run(main()) == ["find", "fail"]


@pytest.mark.skipif(not VERSION_2, reason="version 1 of mcp has no lists with a time to live")
@pytest.mark.parametrize("scope", ["public", "private"])
@pytest.mark.parametrize(("ttl_s", "lists"), [(0, 1), (100, 1), (25, 2)])
def test_a_list_of_tools_is_read_again_after_its_time_to_live(ttl_s: int, lists: int, scope: Any) -> None:
    """The first speculation starts at second 0, the second at 40."""
    asked: list[float] = []
    notes = Notes()
    hint = CacheHint(ttl_ms=1000 * ttl_s, scope=scope)
    server = MCPServer("notes", cache_hints={"tools/list": hint})

    async def main() -> Any:
        def add(only_reads: bool) -> None:
            server.add_tool(notes.find, annotations=types.ToolAnnotations(read_only_hint=only_reads))

        add(True)
        whole = server.list_tools

        async def list_tools() -> Any:
            asked.append(asyncio.get_running_loop().time())
            return await whole()

        server.list_tools = list_tools  # type: ignore[method-assign]
        async with mcp.Client(server, mode="2026-07-28") as client:
            tools = await speculable_tools(client, trusted=True)
            draft = ToolCall("find", {"query": "a"})
            predictors = [ScriptedSpeculator([draft], [draft])]
            async with SpeculationSession(tools, predictors) as session:
                for number in range(2):
                    made = ToolCall("find", {"query": "a"}, str(number))
                    with session.turn([], []) as turn:
                        await asyncio.sleep(40)
                        turn.bind([made])
                    assert (await session.acall(made)).content[0].text == "found a 3"
                    server.remove_tool("find")
                    add(False)
                return session.report()

    report = run_in_virtual_time(main)
    assert len(asked) == lists
    assert report.total.claims == (1 if lists == 2 else 2)
    assert notes.runs == ["a", "a"]  # the second one for real, where the server had changed its mind
    if lists == 2:
        assert "no longer declares find read-only" in str(report.turns[1].calls[0].reason)


@pytest.mark.skipif(VERSION_2, reason="version 2 of mcp is installed")
def test_tasks_need_version_2_and_say_what_installs_it() -> None:
    with pytest.raises(MissingExtraError, match=r"version 2 of mcp is not installed.*'mcp>=2'"):
        from agentrt.adapters.mcp import TasksExtension  # noqa: F401


def test_a_name_that_the_module_does_not_have_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="Tasks"):
        from agentrt.adapters.mcp import Tasks  # noqa: F401


def test_a_session_serves_real_calls_after_speculations_that_were_dropped_in_the_middle() -> None:
    notes = Notes()

    async def main() -> list[Any]:
        made = ToolCall("find", {"query": "b"}, "1")
        drafts = [ToolCall("find", {"query": query}) for query in "acde"]
        async with connected(notes.server) as client:
            session = client.session if VERSION_2 else client
            tools = await speculable_tools(session, trusted=True)
            async with SpeculationSession(tools, [ScriptedSpeculator(drafts)]) as speculation:
                results = []
                for _ in range(3):
                    with speculation.turn([], []) as turn:
                        await asyncio.sleep(5)
                        turn.bind([made])
                    results += await asyncio.gather(
                        speculation.acall(made), *[client.call_tool("find", {"query": each}) for each in "fg"]
                    )
                return results

    texts = [result.content[0].text for result in run_in_virtual_time(main)]
    assert texts == ["found b 3", "found f 3", "found g 3"] * 3


async def test_a_client_that_is_not_connected_is_refused() -> None:
    client = mcp.Client(Notes().server) if VERSION_2 else connected(Notes().server)
    with pytest.raises(ConfigurationError, match="client"):
        await speculable_tools(client, trusted=True)


async def test_a_client_of_fastmcp_gives_its_own_results_and_errors() -> None:
    fastmcp: Any = pytest.importorskip("fastmcp", reason="needs fastmcp")
    server, runs = fastmcp.FastMCP("notes"), list[str]()

    @server.tool(annotations={"readOnlyHint": True})
    async def find(query: str) -> dict[str, str]:
        runs.append(query)
        if query == "nothing":
            raise LookupError(query)
        return {"found": query}

    @server.tool
    async def delete(query: str) -> str:
        return "deleted"

    async with fastmcp.Client(server) as client:
        tools = await speculable_tools(client, trusted=True)
        assert [tool.name for tool in tools] == ["find"]
        for query in ("a", "nothing"):
            call = ToolCall("find", {"query": query}, "1")
            async with SpeculationSession(tools, [ScriptedSpeculator([call])]) as session:
                with session.turn([], []) as turn:
                    await asyncio.sleep(1)
                    turn.bind([call])
                if query == "a":
                    assert (await session.acall(call)).data == {"found": "a"}
                    assert session.report().total.claims == 1
                else:
                    with pytest.raises(fastmcp.exceptions.ToolError, match="nothing"):
                        await session.acall(call)
    assert runs == ["a", "nothing", "nothing"]
