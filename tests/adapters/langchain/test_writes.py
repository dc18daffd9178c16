"""Read-your-writes where a person or a node, and not the model, makes the write."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from agentrt import ToolCall, run_scope, speculable
from agentrt.adapters.langchain import allow_speculation, report_of, speculate
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.langchain.graphs import INPUT, asking, in_line

# One tool call after the other, in the order of the answer.
THREAD: Any = {"configurable": {"thread_id": "1"}, "max_concurrency": 1}
LIST = ToolCall("list_notes", {})


class Notebook:
    """Notes, a speculable tool that reads them, one that a person reviews, and one that writes."""

    def __init__(self, *, fails: bool = False) -> None:
        self.notes = ["a"]

        @speculable(invalidated_by=["create_note"])
        @tool
        async def list_notes() -> str:
            """List the notes."""
            return ",".join(self.notes)

        @tool
        async def find_note(q: str) -> str:
            """Find a note."""
            return q

        @tool
        async def create_note(text: str) -> str:
            """Create a note."""
            self.notes.append(text)
            if fails:
                raise OSError("disk full")
            await asyncio.sleep(1)
            return "created"

        self.tools: list[BaseTool] = [list_notes, find_note, create_note]
        self.create_note = create_note


def contents(state: Any) -> list[str]:
    return [str(message.content) for message in state["messages"] if message.type == "tool"]


@pytest.mark.parametrize(("name", "listed"), [("find_note", "a"), ("create_note", "a,b")])
def test_a_call_that_a_person_edits_into_a_write_outdates_the_reads(name: str, listed: str) -> None:
    notebook = Notebook()
    script: list[Calls] = [[("find_note", {"q": "x"}), ("list_notes", {})]]
    model = speculate(ScriptedChat(script=script, delay=10), ScriptedSpeculator([LIST]))
    review = HumanInTheLoopMiddleware({"find_note": True}, edit_notice=None)
    app = create_agent(model, notebook.tools, middleware=[review], checkpointer=InMemorySaver())
    arguments = {"text": "b"} if name == "create_note" else {"q": "y"}
    decision = {"type": "edit", "edited_action": {"name": name, "args": arguments}}

    async def main() -> Any:
        await app.ainvoke(INPUT, THREAD)
        return await app.ainvoke(Command(resume={"decisions": [decision]}), THREAD)

    assert contents(run_in_virtual_time(main))[1] == listed
    total = report_of(model).total
    assert (total.claims, total.misses) == ((1, 0) if listed == "a" else (0, 1))


@pytest.mark.parametrize("fails", [False, True])
def test_a_write_that_a_node_adds_outdates_the_reads(fails: bool) -> None:
    notebook = Notebook(fails=fails)
    script: list[Calls] = [[("list_notes", {})]]
    model = speculate(ScriptedChat(script=script, delay=10), ScriptedSpeculator([LIST]))

    @allow_speculation
    async def take_a_note(state: MessagesState) -> Any:
        with pytest.raises(OSError, match="disk full") if fails else nullcontext():
            await notebook.create_note.ainvoke({"text": "b"})
        return {}

    ask, tools = asking(model, *notebook.tools), ToolNode(notebook.tools)
    app = in_line(ask=ask, note=take_a_note, tools=tools).compile()
    assert contents(run_in_virtual_time(lambda: app.ainvoke(INPUT, THREAD))) == ["a,b"]
    assert report_of(model).turns[0].calls[0].reason == "create_note was called meanwhile"


def test_a_read_that_began_during_a_write_is_outdated_when_the_write_ends() -> None:
    """The model's next answer is speculated on while a write of the same thread is still going on."""
    notebook = Notebook()
    script: list[Calls] = [[("list_notes", {})]]
    model = speculate(ScriptedChat(script=script, delay=0.5), ScriptedSpeculator([LIST]))
    app = create_agent(model, notebook.tools, checkpointer=InMemorySaver())

    async def write() -> None:
        with run_scope(("thread", "1")):
            await notebook.create_note.ainvoke({"text": "b"})

    async def main() -> Any:
        writing = asyncio.create_task(write())
        # The speculation begins at 0.7, the answer comes at 1.2, the write ends at 1.
        await asyncio.sleep(0.7)
        state = await app.ainvoke(INPUT, THREAD)
        await writing
        return state

    assert contents(run_in_virtual_time(main)) == ["a,b"]
    assert report_of(model).turns[0].calls[0].reason == "create_note was called meanwhile"
