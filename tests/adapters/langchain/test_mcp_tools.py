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
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool

from agentrt import ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculable_mcp_tools, speculate
from agentrt.errors import ConfigurationError
from agentrt.reports.report import SpeculationReport
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools.speculable import speculable_tool
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.langchain.graphs import adrive, transcript
from tests.patience import until

pytestmark = pytest.mark.usefixtures("prediction_is_free")

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
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


def driven(
    tools: Sequence[BaseTool], script: Sequence[Calls], predicted: Sequence[ToolCall] | None
) -> tuple[list[Any], SpeculationReport | None]:
    """Run the script's calls in an agent; return its messages, with artifacts, and its report."""

    async def main() -> tuple[list[Any], SpeculationReport | None]:
        model: Any = ScriptedChat(script=list(script), delay=10)
        if predicted is not None:
            model = speculate(model, ScriptedSpeculator(predicted, delay=1))
        messages = await adrive(create_agent(model, list(tools)), False)
        artifacts = [getattr(message, "artifact", None) for message in messages]
        status = [getattr(message, "status", None) for message in messages]
        report = None if predicted is None else report_of(model)
        return [transcript(messages), artifacts, status], report

    return run_in_virtual_time(main)


def test_a_predicted_call_is_claimed_with_its_blocks_and_artifact() -> None:
    runs: list[str] = []
    tools = [loaded("find", READS, runs)]
    script: list[Calls] = [[("find", {"q": "a"})]]
    plain, _ = driven(tools, script, None)
    messages, report = driven(
        speculable_mcp_tools(tools, trusted=True), script, [ToolCall("find", {"q": "a"})]
    )
    assert messages == plain
    assert report is not None
    assert (report.total.claims, runs) == (1, ["find a"] * 2)


def test_a_write_outdates_what_was_read_before_it() -> None:
    runs: list[str] = []
    tools = [loaded("find", READS, runs), loaded("delete", WRITES, runs)]
    script: list[Calls] = [[("delete", {"q": "a"}), ("find", {"q": "a"})]]
    _, report = driven(speculable_mcp_tools(tools, trusted=True), script, [ToolCall("find", {"q": "a"})])
    assert report is not None
    assert (report.total.claims, report.total.misses) == (0, 1)
    assert runs.count("find a") == 2


# The package itself, with version 1 of mcp, as it needs.


def mcp_agent(
    functions: dict[Callable[..., Any], bool | None],
    script: Sequence[Calls],
    predicted: Sequence[ToolCall] | None,
    **options: Any,
) -> tuple[list[Any], SpeculationReport | None]:
    """:func:`driven` with the tools that the package loads from a real server in this process."""
    package: Any = pytest.importorskip("langchain_mcp_adapters.tools", reason="needs langchain-mcp-adapters")
    from tests.adapters.mcp_servers import connected, server_of

    async def main() -> tuple[list[Any], SpeculationReport | None]:
        async with connected(server_of(functions)) as session:
            tools = await package.load_mcp_tools(session, **options)
            model: Any = ScriptedChat(script=list(script), delay=10)
            if predicted is not None:
                model = speculate(model, ScriptedSpeculator(predicted, delay=1))
                tools = speculable_mcp_tools(tools, trusted=True)
            messages = await adrive(create_agent(model, tools), False)
            artifacts = [getattr(message, "artifact", None) for message in messages]
            status = [getattr(message, "status", None) for message in messages]
            report = None if predicted is None else report_of(model)
            return [_without_block_ids(transcript(messages)), artifacts, status], report

    return run_in_virtual_time(main)


def _without_block_ids(messages: list[Any]) -> list[Any]:
    return [
        (kind, [{**block, "id": ""} for block in content] if isinstance(content, list) else content, calls)
        for kind, content, calls in messages
    ]


async def find(q: str) -> dict[str, str]:
    """Find a note."""
    await asyncio.sleep(5)
    return {"found": q}


async def broken(q: str) -> str:
    """Fail."""
    raise LookupError(q)


FIND: list[Calls] = [[("find", {"q": "a"})]]
RIGHT = [ToolCall("find", {"q": "a"})]


def test_the_packages_tools_are_claimed_with_structured_content() -> None:
    plain, _ = mcp_agent({find: True}, FIND, None)
    messages, report = mcp_agent({find: True}, FIND, RIGHT)
    assert messages == plain
    assert messages[1][2] == {"structured_content": {"found": "a"}}
    assert report is not None
    assert (report.total.claims, report.total.wasted) == (1, 0)


def test_an_error_of_the_server_is_that_of_the_real_call() -> None:
    script: list[Calls] = [[("broken", {"q": "a"})]]
    plain, _ = mcp_agent({broken: True}, script, None)
    messages, report = mcp_agent({broken: True}, script, [ToolCall("broken", {"q": "a"})])
    assert messages == plain
    assert messages[2][2] == "error"
    assert report is not None
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
    from langchain_core.messages import ToolMessage

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
    plain, _ = mcp_agent({find: True}, FIND, None, tool_interceptors=[interceptor])
    messages, report = mcp_agent({find: True}, FIND, RIGHT, tool_interceptors=[interceptor])
    assert messages == plain
    assert shown in str(messages[0][2])
    assert report is not None
    assert report.total.claims == claims


def test_a_shared_session_serves_all_tools_while_speculations_come_and_go() -> None:
    script: list[Calls] = [[("find", {"q": str(turn)})] for turn in range(4)]
    wrong = [ToolCall("find", {"q": each}) for each in ("x", "y", "z")]
    plain, _ = mcp_agent({find: True}, script, None)
    messages, report = mcp_agent({find: True}, script, [*wrong, ToolCall("find", {"q": "0"})])
    assert messages == plain
    assert report is not None
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


@pytest.mark.slow
def has_ended(pid: int) -> bool:
    """Whether a child has ended; nobody collects its status where its event loop has ended before it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


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
