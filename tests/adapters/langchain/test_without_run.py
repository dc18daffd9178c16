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
from langgraph.types import Command, interrupt

from agentrt import speculable
from agentrt.adapters.langchain import report_of
from agentrt.errors import NotSpeculableError
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Calls, ScriptedChat, Silent
from tests.adapters.langchain.graphs import INPUT, LOOK, speculating, transcript

pytestmark = pytest.mark.usefixtures("prediction_is_free")

RUN: Any = {"configurable": {"thread_id": "1", "user": "ann"}}
SCRIPT: list[Calls] = [[LOOK]]


def looking(function: Callable[[str], str]) -> BaseTool:
    async def look(q: str) -> str:
        return function(q)

    return StructuredTool.from_function(coroutine=look, name="look", description="Look.")


def answers(look: BaseTool, model: Any) -> tuple[list[Any], bool]:
    """Run an agent that calls ``look``; return its messages, and whether a person was asked."""
    agent = create_agent(model, [look], checkpointer=InMemorySaver())

    async def main() -> tuple[list[Any], bool]:
        state = await agent.ainvoke(INPUT, RUN)
        if asked := "__interrupt__" in state:
            state = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), RUN)
        return transcript(state["messages"]), asked

    return run_in_virtual_time(main)


def claims(function: Callable[[str], str]) -> int:
    """Return the claims of an agent whose tool is ``function``; it says the same without speculation."""
    look, model = looking(function), speculating(SCRIPT)
    assert answers(speculable(look), model) == answers(look, Silent(script=SCRIPT, delay=10))
    return int(report_of(model).total.claims)


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
    assert claims(function) == 0


def test_a_runnable_that_does_not_look_for_the_run_is_claimed() -> None:
    shout = RunnableLambda(str.upper) | RunnableLambda(lambda text: text + "!")
    assert claims(shout.invoke) == 1


@pytest.mark.parametrize("entrance", ["invoke", "ainvoke", "run", "arun"])
def test_a_class_that_decides_before_its_tool_runs_is_refused(entrance: str) -> None:
    kind = type("Guarded", (StructuredTool,), {entrance: lambda self, *args, **options: interrupt("may I?")})
    guarded = kind(name="look", description="Look.", func=lambda q: q, args_schema=send.args_schema)
    with pytest.raises(NotSpeculableError, match=rf"Guarded has a method {entrance}\(\)"):
        speculable(guarded)
