"""Read-only tools of trusted MCP servers in agents of the Agents SDK."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from agents.mcp import MCPServer, MCPServerStdio
from agents.models.interface import Model
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from agentrt import ToolCall
from agentrt.adapters.openai_agents import report_of, speculable_server, speculate
from agentrt.adapters.openai_agents.mcp_servers import described_by_annotations
from agentrt.errors import ConfigurationError
from tests.adapters.openai_agents.doubles import (
    Drafts,
    Runs,
    agent,
    calling,
    model,
    run,
    saying,
    settled,
    transcript,
)
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


def find(q: str) -> ToolCall:
    return ToolCall("find_note", {"q": q})


def delete(q: str) -> ToolCall:
    return ToolCall("delete_note", {"q": q})


class Notes(MCPServer):
    """A server of the SDK without a connection."""

    def __init__(self, runs: Runs, **settings: Any) -> None:
        super().__init__(**settings)
        self.runs = runs
        self.fails = 0

    @property
    def name(self) -> str:
        return "notes"

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Tool]:
        only_reads = ToolAnnotations(read_only_hint=True, title="Find")
        return [
            Tool(name="find_note", input_schema=SCHEMA, annotations=only_reads),
            Tool(name="delete_note", input_schema=SCHEMA, annotations=ToolAnnotations(read_only_hint=False)),
            Tool(name="tagged_note", input_schema=SCHEMA, annotations=only_reads, _meta={"tag": 7}),
            Tool(name="other", input_schema=SCHEMA),
        ]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> CallToolResult:
        text = self.runs.note(f"{tool_name} {(arguments or {})['q']}")
        self.fails -= 1
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=self.fails >= 0)

    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any: ...


async def use(server: Notes, *steps: Any, drafts: Drafts | None, **settings: Any) -> tuple[Any, Any]:
    """Run an agent with the server, speculating if there are drafts; return its transcript and report."""
    chat: Model = model(*steps)
    served: MCPServer = server
    if drafts is not None:
        chat, served = speculate(chat, drafts), speculable_server(server, trusted=True)
    result = await run(agent(chat, mcp_servers=[served], **settings))
    return transcript(result), None if drafts is None else report_of(chat)


@pytest.mark.parametrize("structured", [False, True])
def test_a_read_only_tool_claims(structured: bool) -> None:
    async def main(speculates: bool) -> Any:
        runs = Runs()
        server = Notes(runs, use_structured_content=structured)
        after = runs.until("find_note b") if speculates else None
        drafts = Drafts([], [find("b"), delete("b")])
        steps = calling(find("a")), calling(find("b"), after=after), calling(delete("b")), saying()
        made, report = await use(server, *steps, drafts=drafts if speculates else None)
        assert runs.made == ["find_note a", "find_note b", "delete_note b"]
        return made, report

    speculative, report = asyncio.run(main(speculates=True))
    plain, _ = asyncio.run(main(speculates=False))
    assert speculative == plain
    assert (report.total.claims, report.total.misses, report.total.wasted) == (1, 1, 0)


def test_an_error_of_the_server_is_that_of_the_real_call() -> None:
    runs = Runs()
    server = Notes(runs)
    server.fails = 1
    steps = calling(find("a"), after=runs.until("find_note a")), saying()

    made, report = asyncio.run(use(server, *steps, drafts=Drafts([find("a")])))

    assert "found find_note a" in str(made)
    assert runs.made == ["find_note a", "find_note a"]
    assert report.total.misses == 1


@pytest.mark.parametrize(
    ("of_server", "of_agent"),
    [
        ({"require_approval": "always"}, {}),
        ({"require_approval": {"find_note": "always"}}, {}),
        ({"tool_meta_resolver": lambda context: {"user": 7}}, {}),
        ({}, {"mcp_config": {"include_server_in_tool_names": True}}),
    ],
    ids=["approval", "approval of the tool", "metadata", "name with the server's"],
)
def test_tools_that_belong_to_the_real_call_are_not_run(of_server: Any, of_agent: Any) -> None:
    runs = Runs()
    drafts = Drafts([find("a"), ToolCall("tagged_note", {"q": "a"})])

    asyncio.run(use(Notes(runs, **of_server), saying(after=settled), drafts=drafts, **of_agent))

    assert runs.made == []


def test_a_call_with_metadata_is_made() -> None:
    runs = Runs()
    server = Notes(runs)

    async def after() -> None:
        await runs.until("find_note a")()
        server.tool_meta_resolver = lambda context: {"user": 7}

    asyncio.run(use(server, calling(find("a"), after=after), saying(), drafts=Drafts([find("a")])))

    assert runs.made == ["find_note a", "find_note a"]


def test_the_server_stays_the_same_one() -> None:
    plain = Notes(Runs())
    server = speculable_server(plain, trusted=True, ttl=5)

    assert isinstance(server, Notes)
    assert type(server).__name__ == "Notes"
    assert server.__dict__ is plain.__dict__


def test_wrong_arguments() -> None:
    with pytest.raises(ConfigurationError, match="trusted=True"):
        speculable_server(Notes(Runs()), trusted=False)
    with pytest.raises(ConfigurationError, match="server: an object of type str"):
        speculable_server("notes", trusted=True)  # type: ignore[type-var]


SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("notes")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_note(q: str) -> str:
    return f"a note about {q}"


server.run()
"""


@pytest.mark.slow
def test_a_server_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)

    async def main() -> Any:
        async with MCPServerStdio(
            params={"command": sys.executable, "args": [str(script)]},
            client_session_timeout_seconds=PATIENCE_S,  # by default five seconds, also for its start
        ) as server:
            served = speculable_server(server, trusted=True)
            started = asyncio.Event()

            async def until() -> None:
                await asyncio.wait_for(started.wait(), PATIENCE_S)

            class Observer:
                def on_event(self, event: Any) -> None:
                    if type(event).__name__ == "SpeculationStarted":
                        started.set()

            chat = speculate(
                model(calling(find("a"), after=until), saying()), Drafts([find("a")]), observers=[Observer()]
            )
            result = await run(agent(chat, mcp_servers=[served]))
            return transcript(result), report_of(chat)

    made, report = asyncio.run(main())
    assert "a note about a" in str(made)
    assert report.total.claims == 1


def test_a_tool_of_the_open_world_discloses() -> None:
    class Web(Notes):
        async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Tool]:
            hints = ToolAnnotations(read_only_hint=True, open_world_hint=True)
            return [
                *await super().list_tools(),
                Tool(name="search_web", input_schema=SCHEMA, annotations=hints),
            ]

    async def main(**options: Any) -> dict[str, bool]:
        tools = await speculable_server(Web(Runs()), trusted=True, **options).list_tools()
        described = {tool.name: described_by_annotations(tool.annotations) for tool in tools}
        return {name: each.options.discloses for name, each in described.items() if each is not None}

    assert asyncio.run(main()) == {"find_note": False, "search_web": True}
    assert asyncio.run(main(discloses=False)) == {"find_note": False, "search_web": False}
