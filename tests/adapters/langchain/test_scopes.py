"""Runs in one process: an endpoint that gives equal ids to all of them mixes up none of them."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

from agentrt import ToolCall, run_scope, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.drafts import DraftRequest
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Calls, ScriptedChat
from tests.adapters.langchain.graphs import INPUT, asking, in_line, run

pytestmark = pytest.mark.usefixtures("prediction_is_free")

user: ContextVar[str] = ContextVar("user", default="nobody")
INBOX: list[Calls] = [[("inbox", {"folder": "new"})]]


class Oracle:
    """Drafts the call of every run's first turn."""

    async def drafts(self, request: DraftRequest) -> Any:
        if request.messages[-1]["role"] == "user":
            yield ToolCall("inbox", {"folder": "new"})


def inbox_tool(runs: list[str], **options: Any) -> BaseTool:
    @speculable(**options)
    @tool
    async def inbox(folder: str) -> str:
        """Read a folder of the user's own mail."""
        runs.append(user.get())
        await asyncio.sleep(3)
        return f"{folder} of {user.get()}"

    return inbox


def results(state: Any) -> list[str]:
    return [str(message.content) for message in state["messages"] if message.type == "tool"]


def speculating(kind: type[ScriptedChat] = ScriptedChat) -> Any:
    return speculate(kind(script=INBOX, delay=5), Oracle())


@pytest.mark.parametrize("persistent", [False, True])
def test_users_with_equal_call_ids_get_their_own_speculations(persistent: bool) -> None:
    runs: list[str] = []
    model = speculating()
    saver = InMemorySaver() if persistent else None
    app = create_agent(model, [inbox_tool(runs)], checkpointer=saver)

    async def serve(name: str) -> str:
        user.set(name)
        config: Any = {"configurable": {"thread_id": name}} if persistent else {}
        messages = (await app.ainvoke({"messages": [("user", "hi")]}, config))["messages"]
        return str(messages[2].content)

    async def main() -> list[str]:
        return await asyncio.gather(*map(serve, ["ann", "bob", "eve"]))

    assert run_in_virtual_time(main) == ["new of ann", "new of bob", "new of eve"]
    assert runs == ["ann", "bob", "eve"]
    assert report_of(model).total.claims == 3


@pytest.mark.parametrize("named", [False, True])
def test_without_a_graph_tasks_with_equal_ids_claim_their_own(named: bool) -> None:
    model = speculating()
    look = inbox_tool([])
    bound = model.bind_tools([look])

    async def serve(name: str) -> str:
        user.set(name)
        with run_scope(name) if named else nullcontext():
            answer = await bound.ainvoke("hi")
            await asyncio.sleep(5)  # both answers are there before either call is made
            message = await look.ainvoke({**answer.tool_calls[0], "type": "tool_call"})
        return str(message.content)

    async def main() -> list[str]:
        return await asyncio.gather(serve("ann"), serve("bob"))

    assert run_in_virtual_time(main) == ["new of ann", "new of bob"]
    assert report_of(model).total.claims == 2


def test_an_approval_in_a_later_invocation_still_claims() -> None:
    runs: list[str] = []
    look = inbox_tool(runs, before_approval=True)
    model = speculating()

    async def review(state: MessagesState) -> Any:
        assert interrupt("may I?") == "yes"
        return {}

    app = in_line(ask=asking(model, look), review=review, tools=ToolNode([look])).compile(InMemorySaver())
    assert run(app, INPUT, Command(resume="yes"))["messages"][-1].content == "new of nobody"
    assert runs == ["nobody"]
    assert report_of(model).total.claims == 1


class Numbering(ScriptedChat):
    """Gives each call an id of its own, as good endpoints do."""

    def _begin(self, messages: Any) -> Any:
        message = super()._begin(messages)
        for call in message.tool_calls:
            call["id"] = uuid.uuid4().hex
        return message


@pytest.mark.parametrize(("kind", "seconds"), [(ScriptedChat, 5 + 3 + 5), (Numbering, 5 + 5)])
def test_branches_of_one_run_claim_their_own_or_miss(kind: type[ScriptedChat], seconds: int) -> None:
    look = inbox_tool([])

    worker = create_agent(speculating(kind), [look])

    async def work(state: Any) -> Any:
        user.set(state["name"])
        done = await worker.ainvoke({"messages": [("user", state["name"])]})
        return {"messages": [done["messages"][3]]}

    def send(state: Any) -> list[Send]:
        return [Send("work", {"name": name}) for name in ("ann", "bob")]

    app = StateGraph(MessagesState).add_node("work", work).add_conditional_edges(START, send).compile()

    async def main() -> tuple[list[str], float]:
        seen: list[str] = []
        async for _, (message, _) in app.astream({"messages": []}, stream_mode="messages", subgraphs=True):
            if message.type == "tool":
                seen.append(str(message.content))
        return seen, asyncio.get_running_loop().time()

    seen, took = run_in_virtual_time(main)
    assert sorted(seen) == ["new of ann", "new of bob"]
    assert took == seconds
