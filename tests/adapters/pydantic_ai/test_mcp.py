"""Tools of MCP servers in agents of pydantic-ai: those that a trusted server declares read-only."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")
pytest.importorskip("fastmcp", reason="needs fastmcp")

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from agentrt.adapters.pydantic_ai import SpeculateTools
from tests.adapters.pydantic_ai.doubles import Happenings, Oracle, Script, transcript

fastmcp: Any = importlib.import_module("fastmcp")
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]


async def test_read_only_tools_are_claimed_and_others_run_when_they_are_called() -> None:
    happenings = Happenings()
    server = fastmcp.FastMCP("notes")

    @server.tool(annotations={"readOnlyHint": True})
    async def find_note(q: str) -> str:
        happenings.note(f"found {q}")
        return f"a note about {q}"

    @server.tool
    async def write_note(q: str) -> str:
        happenings.note(f"wrote {q}")
        return "written"

    async def until_found(turn: int) -> None:
        if turn == 0:
            await happenings.until("found a")

    answers = [("find_note", {"q": "a"}), ("write_note", {"q": "b"})]
    plain = await Agent(Script(answers, "done").model(), toolsets=[MCPToolset(server)]).run("go")
    assert sorted(happenings.seen) == ["found a", "wrote b"]
    happenings.seen.clear()

    script = Script(answers, "done", before=until_found)
    speculation = SpeculateTools[None](
        Oracle(script), tools={"annotations": {"readOnlyHint": True}}, observers=[happenings]
    )
    agent = Agent(script.model(), toolsets=[MCPToolset(server)], capabilities=[speculation])
    result = await agent.run("go")

    assert transcript(result.all_messages()) == transcript(plain.all_messages())
    assert (happenings.seen.count("found a"), happenings.seen.count("wrote b")) == (1, 1)
    assert "refused write_note: no speculable tool of this name" in happenings.seen
    assert speculation.report().total.claims == 1
