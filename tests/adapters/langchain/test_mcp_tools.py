"""Tools that langchain-mcp-adapters loads, in an unchanged agent."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from langgraph.graph import MessagesState

from agentrt import ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculable_mcp_tools, speculate
from agentrt.errors import ConfigurationError
from agentrt.reports.report import SpeculationReport
from agentrt.testing import ScriptedSpeculator
from agentrt.tools.speculable import speculable_tool
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.langchain.graphs import adrive, ran, ran_plain
from tests.patience import until

pytestmark = pytest.mark.usefixtures("prediction_is_free")

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
FIND: list[Calls] = [[("find", {"q": "a"})]]
RIGHT = [ToolCall("find", {"q": "a"})]
READS, WRITES = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": None}


def loaded(name: str, metadata: dict[str, Any] | None, runs: list[str] | None = None) -> BaseTool:
    """Return a tool as the package makes them: a JSON schema, an injected runtime, blocks and an artifact."""

    async def call_tool(
        runtime: Annotated[object | None, InjectedToolArg()] = None, **arguments: Any
    ) -> tuple[list[Any], Any]:
        if runs is not None:
            runs.append(f"{name} {arguments['q']}")
        text = f"{name} {arguments['q']}"
        return [{"type": "text", "text": text, "id": "lc_1"}], {"structured_content": {"result": text}}

    return StructuredTool(
        name=name,
        description="Look.",
        args_schema=SCHEMA,
        coroutine=call_tool,
        response_format="content_and_artifact",
        metadata=metadata,
    )


def names(tools: Sequence[BaseTool]) -> list[str]:
    return [tool.name for tool in tools if speculable_tool(tool) is not None]


def test_a_tool_of_the_open_world_discloses() -> None:
    given = [
        loaded("search", {**READS, "openWorldHint": True}),
        loaded("read", {"read_only_hint": True, "open_world_hint": False}),
        loaded("find", READS),
    ]
    for options, expected in (({}, [True, False, False]), ({"discloses": True}, [True] * 3)):
        tools = map(speculable_tool, speculable_mcp_tools(given, trusted=True, **options))  # type: ignore[arg-type]
        assert [tool is not None and tool.options.discloses for tool in tools] == expected


def test_only_tools_that_say_they_only_read_are_speculable() -> None:
    given = [
        loaded("find", READS),
        loaded("delete", WRITES),
        loaded("mystery", None),
        loaded("read", {"read_only_hint": True}),
        loaded("claimed", {"readOnlyHint": "true"}),
    ]
    tools = speculable_mcp_tools(given, trusted=True, ttl=5)
    assert [tool.name for tool in tools] == [tool.name for tool in given]
    assert names(tools) == ["find", "read"]
    found = speculable_tool(tools[0])
    assert found is not None
    assert found.options.ttl == 5
    assert found.options.invalidated_by == ("delete", "mystery", "claimed")
    own = speculable_tool(speculable_mcp_tools(given, trusted=True, invalidated_by=["delete"])[0])
    assert own is not None
    assert own.options.invalidated_by == ("delete",)
    again = speculable_mcp_tools([speculable(given[0], ttl=9)], trusted=True)
    assert again[0].__speculable__.options.ttl == 9  # type: ignore[attr-defined]


@pytest.mark.parametrize("trusted", [False, None, "yes"])
def test_a_server_that_is_not_trusted_marks_nothing(trusted: Any) -> None:
    with pytest.raises(ConfigurationError, match="trust"):
        speculable_mcp_tools([loaded("find", READS)], trusted=trusted)


def test_a_predicted_call_is_claimed_with_its_blocks_and_artifact() -> None:
    runs: list[str] = []
    tools = [loaded("find", READS, runs)]
    messages, report = ran(*speculable_mcp_tools(tools, trusted=True), script=FIND)
    assert messages == ran_plain(*tools, script=FIND)
    assert (report.total.claims, runs) == (1, ["find a"] * 2)


def test_a_write_outdates_what_was_read_before_it() -> None:
    runs: list[str] = []
    tools = [loaded("find", READS, runs), loaded("delete", WRITES, runs)]
    script: list[Calls] = [[("delete", {"q": "a"}), ("find", {"q": "a"})]]
    _, report = ran(*speculable_mcp_tools(tools, trusted=True), script=script, drafts=RIGHT)
    assert (report.total.claims, report.total.misses) == (0, 1)
    assert runs.count("find a") == 2


# The package itself, with version 1 of mcp, as it needs.


Messages = list[Any]


def mcp_agent(
    function: Callable[..., Any], script: Sequence[Calls] = FIND, drafts: Any = None, **options: Any
) -> tuple[Messages, Messages, SpeculationReport]:
    """Run an agent, with and without speculation, on what the package loads from a server in this process.

    The ids of blocks, which differ in all runs, are left out. Returns the messages with and without, and the
    report.
    """
    package: Any = pytest.importorskip("langchain_mcp_adapters.tools", reason="needs langchain-mcp-adapters")
    from tests.adapters.mcp_servers import connected, server_of

    def build(model: Any, _: Any) -> Any:
        async def node(state: MessagesState) -> Any:
            async with connected(server_of({function: True})) as session:
                tools = await package.load_mcp_tools(session, **options)
                if getattr(model, "_agentrt_state", None) is not None:
                    tools = speculable_mcp_tools(tools, trusted=True)
                return await create_agent(model, tools).ainvoke(state)  # type: ignore[arg-type]

        return RunnableLambda(node)

    messages, report = ran(build=build, script=script, drafts=drafts)
    plain = ran_plain(build=build, script=script)
    return _without_block_ids(messages), _without_block_ids(plain), report


def _without_block_ids(messages: Messages) -> Messages:
    return [
        (kind, [{**block, "id": ""} for block in content] if isinstance(content, list) else content, *rest)
        for kind, content, *rest in messages
    ]


async def find(q: str) -> dict[str, str]:
    """Find a note."""
    await asyncio.sleep(5)
    return {"found": q}


async def broken(q: str) -> str:
    """Fail."""
    raise LookupError(q)


def test_the_packages_tools_are_claimed_with_structured_content() -> None:
    messages, plain, report = mcp_agent(find)
    assert messages == plain
    assert messages[2][3] == {"structured_content": {"found": "a"}}
    assert (report.total.claims, report.total.wasted) == (1, 0)


def test_an_error_of_the_server_is_that_of_the_real_call() -> None:
    messages, plain, report = mcp_agent(broken, [[("broken", {"q": "a"})]])
    assert messages == plain
    assert messages[2][4] == "error"
    assert (report.total.claims, report.total.misses) == (0, 1)


async def only_look(request: Any, run: Any) -> Any:
    return await run(request.override(args={"q": request.args["q"].upper()}))


async def reads_the_runtime(request: Any, run: Any) -> Any:
    return await run(request.override(args={"q": f"{request.args['q']} of {request.runtime.tool_call_id}"}))


async def swallows(request: Any, run: Any) -> Any:
    try:
        user = request.runtime.tool_call_id
    except Exception:  # noqa: BLE001 - as interceptors do
        user = "nobody"
    return await run(request.override(args={"q": user}))


async def answers_itself(request: Any, run: Any) -> Any:
    return ToolMessage("cached", tool_call_id="main_0_0", name=request.name)


@pytest.mark.parametrize(
    ("interceptor", "claims", "shown"),
    [
        (only_look, 1, "A"),
        (reads_the_runtime, 0, "a of main_0_0"),
        (swallows, 0, "main_0_0"),
        (answers_itself, 1, "cached"),
    ],
)
def test_interceptors_see_the_call(interceptor: Any, claims: int, shown: str) -> None:
    messages, plain, report = mcp_agent(find, tool_interceptors=[interceptor])
    assert messages == plain
    assert shown in str(messages[2])
    assert report.total.claims == claims


def test_a_shared_session_serves_all_tools_while_speculations_come_and_go() -> None:
    script: list[Calls] = [[("find", {"q": str(turn)})] for turn in range(4)]
    drafts = [ToolCall("find", {"q": each}) for each in ("x", "y", "z", "0")]
    messages, plain, report = mcp_agent(find, script, drafts)
    assert messages == plain
    assert report.total.claims == 1
    assert report.total.wasted >= 3


SERVER = """
import os, sys
from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
server = FastMCP("notes", log_level="ERROR")

def find(q: str) -> str:
    "Find a note."
    with open(sys.argv[1], "a") as runs:
        print(os.getpid(), q, file=runs)
    if q == "wrong":
        sys.stdin.read()  # until the client closes it
    return f"found {q}"

server.add_tool(find, annotations=ToolAnnotations(readOnlyHint=True))
server.run("stdio")
"""


def has_ended(pid: int) -> bool:
    """Whether a child has ended; nobody collects its status where its event loop has ended before it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


@pytest.mark.slow
def test_a_server_of_its_own_for_each_call_ends_with_a_dropped_speculation(tmp_path: Path) -> None:
    package: Any = pytest.importorskip("langchain_mcp_adapters.client", reason="needs langchain-mcp-adapters")
    script, runs = tmp_path / "server.py", tmp_path / "runs"
    script.write_text(SERVER)
    connection = {
        "transport": "stdio",
        "command": sys.executable,
        "args": [str(script), str(runs)],
        "env": dict(os.environ),
    }

    def seen() -> int:
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    class Waiting(ScriptedChat):
        async def _agenerate(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
            result = await super()._agenerate(messages, *args, **kwargs)
            if len(self.asked) == 1:
                await asyncio.to_thread(until, lambda: seen() == 2)
            return result

    async def main() -> tuple[list[Any], SpeculationReport]:
        client = package.MultiServerMCPClient({"notes": connection})
        tools = speculable_mcp_tools(await client.get_tools(server_name="notes"), trusted=True)
        drafts = [ToolCall("find", {"q": "wrong"}), *RIGHT]
        model = speculate(Waiting(script=FIND), ScriptedSpeculator(drafts))
        messages = await adrive(create_agent(model, tools), False)
        return [message.text for message in messages if message.type == "tool"], report_of(model)

    results, report = asyncio.run(main())
    assert results == ["found a"]
    assert (report.total.claims, report.total.wasted) == (1, 1)
    started = [line.split() for line in runs.read_text().splitlines()]
    assert sorted(q for _, q in started) == ["a", "wrong"]
    for pid, _ in started:
        until(lambda pid=int(pid): has_ended(pid))  # type: ignore[misc]
