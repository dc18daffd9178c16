"""A speculative run that looks for the LangChain run around it is a miss, whatever it makes of that."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.runnables import RunnableConfig, RunnableLambda, ensure_config
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import StateGraph
from langgraph.types import Command, interrupt

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.errors import NotSpeculableError
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import ScriptedChat
from tests.adapters.langchain.graphs import INPUT, transcript

pytestmark = pytest.mark.usefixtures("prediction_is_free")

LOOK = ("look", {"q": "a"})
APPROVED = {"decisions": [{"type": "approve"}]}
RUN: Any = {"configurable": {"thread_id": "1", "user": "ann"}}


def looking(function: Callable[[str], str]) -> BaseTool:
    async def look(q: str) -> str:
        return function(q)

    return StructuredTool.from_function(coroutine=look, name="look", description="Look.")


def answers(look: BaseTool, speculating: bool) -> tuple[list[Any], bool, int]:
    """Run an agent that calls ``look``; return its messages, whether a person was asked, and the claims."""

    async def main() -> tuple[list[Any], bool, int]:
        model: Any = ScriptedChat(script=[[LOOK]], delay=10)
        if speculating:
            model = speculate(model, ScriptedSpeculator([ToolCall(*LOOK)], delay=1))
        agent = create_agent(model, [speculable(look) if speculating else look], checkpointer=InMemorySaver())
        state = await agent.ainvoke(INPUT, RUN)
        if asked := "__interrupt__" in state:
            state = await agent.ainvoke(Command(resume=APPROVED), RUN)
        claims = report_of(model).total.claims if speculating else 0
        return transcript(state["messages"]), asked, claims

    return run_in_virtual_time(main)


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


@pytest.mark.parametrize(
    "function", [written, by_get_config, by_ensure_config, by_inner_runnable, asked, by_agent]
)
def test_what_depends_on_the_run_is_not_claimed(function: Callable[[str], str]) -> None:
    plain = answers(looking(function), False)
    assert answers(looking(function), True) == plain


def in_node(function: Callable[[str], str], speculating: bool) -> tuple[list[str], bool, int]:
    """Run a node with a session of its own and a plain function; else as ``answers``."""

    @speculable
    async def look(q: str) -> str:
        return function(q)

    async def main() -> tuple[list[str], bool, int]:
        drafts = [ToolCall(*LOOK)] if speculating else []
        sessions = []

        async def node(state: dict[str, Any]) -> dict[str, Any]:
            async with SpeculationSession([look], ScriptedSpeculator(drafts)) as session:
                sessions.append(session)
                with session.turn([], []) as turn:
                    await asyncio.sleep(1)
                    turn.bind([ToolCall(*LOOK)])
                return {"found": [await session.acall(ToolCall(*LOOK))]}

        graph: Any = StateGraph(Found)
        graph.add_node("look", node).set_entry_point("look")
        agent = graph.compile(checkpointer=InMemorySaver())
        state = await agent.ainvoke({}, RUN)
        if asked := "__interrupt__" in state:
            state = await agent.ainvoke(Command(resume=APPROVED), RUN)
        return state["found"], asked, sum(session.report().total.claims for session in sessions)

    return run_in_virtual_time(main)


class Found(TypedDict):
    found: list[str]


@pytest.mark.parametrize(
    "function", [written, by_get_config, by_ensure_config, by_inner_runnable, asked, by_agent]
)
def test_a_plain_function_in_a_node_is_no_exception(function: Callable[[str], str]) -> None:
    assert in_node(function, True) == in_node(function, False)


def test_a_plain_function_that_does_not_look_for_the_run_is_claimed() -> None:
    assert in_node(str.upper, True) == (["A"], False, 1)


def test_a_runnable_that_does_not_look_for_the_run_is_claimed() -> None:
    shout = RunnableLambda(str.upper) | RunnableLambda(lambda text: text + "!")
    messages, _, claims = answers(looking(shout.invoke), True)
    assert (messages, claims) == (answers(looking(shout.invoke), False)[0], 1)


@pytest.mark.parametrize("entrance", ["invoke", "ainvoke", "run", "arun"])
def test_a_class_that_decides_before_its_tool_runs_is_refused(entrance: str) -> None:
    kind = type("Guarded", (StructuredTool,), {entrance: lambda self, *args, **options: interrupt("may I?")})
    guarded = kind(name="look", description="Look.", func=lambda q: q, args_schema=send.args_schema)
    with pytest.raises(NotSpeculableError, match=rf"Guarded has a method {entrance}\(\)"):
        speculable(guarded)
