"""A speculative run that looks for the LangChain run around it is a miss, whatever it makes of that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.runnables import RunnableConfig, RunnableLambda, ensure_config
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import MessagesState
from langgraph.types import Command, interrupt

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import report_of
from agentrt.errors import NotSpeculableError
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Calls, ScriptedChat, Silent
from tests.adapters.langchain.graphs import INPUT, LOOK, after_turn, in_line, speculating, transcript

pytestmark = pytest.mark.usefixtures("prediction_is_free")

RUN: Any = {"configurable": {"thread_id": "1", "user": "ann"}}
SCRIPT: list[Calls] = [[LOOK]]


def looking(function: Callable[[str], str]) -> BaseTool:
    async def look(q: str) -> str:
        return function(q)

    return StructuredTool.from_function(coroutine=look, name="look", description="Look.")


def answered(app: Any) -> tuple[list[Any], bool]:
    """Run an app, with a person who approves; return its messages, and whether the person was asked."""

    async def main() -> tuple[list[Any], bool]:
        state = await app.ainvoke(INPUT, RUN)
        if asked := "__interrupt__" in state:
            state = await app.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), RUN)
        return transcript(state["messages"]), asked

    return run_in_virtual_time(main)


def claims_of_agent(function: Callable[[str], str]) -> int:
    """Return the claims of an agent whose tool is ``function``; it says the same without speculation."""
    look, model = looking(function), speculating(SCRIPT)
    fast = create_agent(model, [speculable(look)], checkpointer=InMemorySaver())
    plain = create_agent(Silent(script=SCRIPT, delay=10), [look], checkpointer=InMemorySaver())
    assert answered(fast) == answered(plain)
    return int(report_of(model).total.claims)


def claims_in_node(function: Callable[[str], str]) -> int:
    """Return the claims of a session in a node, whose tool is a plain function."""
    sessions: list[SpeculationSession] = []

    @speculable
    async def look(q: str) -> str:
        return function(q)

    def app(drafts: list[ToolCall]) -> Any:
        async def node(state: MessagesState) -> Any:
            async with after_turn(look, drafts, ToolCall(*LOOK)) as session:
                sessions.append(session)
                return {"messages": [("ai", await session.acall(ToolCall(*LOOK)))]}

        return in_line(node=node).compile(InMemorySaver())

    assert answered(app([ToolCall(*LOOK)])) == answered(app([]))
    return sum(session.report().total.claims for session in sessions)


ways = pytest.mark.parametrize("claims", [claims_of_agent, claims_in_node])


def written(q: str) -> str:
    with contextlib.suppress(RuntimeError):
        get_stream_writer()({"progress": q})
    return q


def by_get_config(q: str) -> str:
    try:
        return str(get_config()["configurable"]["user"])
    except (RuntimeError, KeyError):
        return "nobody"


def by_ensure_config(q: str) -> str:
    return str(ensure_config()["configurable"].get("user", "nobody"))


def of_inner(x: str, config: RunnableConfig) -> str:
    return str(config["configurable"].get("user", "nobody"))


def by_inner_runnable(q: str) -> str:
    return RunnableLambda(of_inner).invoke(q)


def asked(q: str) -> str:
    try:
        return str(interrupt(q))
    except RuntimeError:
        return "not asked"


@tool
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


def by_agent(q: str) -> str:
    inner = create_agent(
        ScriptedChat(script=[[("send", {"to": "Ann"})]]),
        [send],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"send": True})],
    )
    return inner.invoke(INPUT)["messages"][-1].text


@ways
@pytest.mark.parametrize(
    "function", [written, by_get_config, by_ensure_config, by_inner_runnable, asked, by_agent]
)
def test_what_depends_on_the_run_is_not_claimed(claims: Any, function: Callable[[str], str]) -> None:
    assert claims(function) == 0


@ways
def test_a_runnable_that_does_not_look_for_the_run_is_claimed(claims: Any) -> None:
    shout = RunnableLambda(str.upper) | RunnableLambda(lambda text: text + "!")
    assert claims(shout.invoke) == 1


@pytest.mark.parametrize("entrance", ["invoke", "ainvoke", "run", "arun"])
def test_a_class_that_decides_before_its_tool_runs_is_refused(entrance: str) -> None:
    kind = type("Guarded", (StructuredTool,), {entrance: lambda self, *args, **options: interrupt("may I?")})
    guarded = kind(name="look", description="Look.", func=lambda q: q, args_schema=send.args_schema)
    with pytest.raises(NotSpeculableError, match=rf"Guarded has a method {entrance}\(\)"):
        speculable(guarded)
