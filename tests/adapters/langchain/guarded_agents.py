"""Agents with guards around tool calls that say no: each run of the tool nevertheless is a bypass.

Every agent's model calls ``look`` once, its predictor has drafted that call long before, and then a person,
a middleware or the graph rejects it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ToolRetryMiddleware,
    after_model,
    wrap_tool_call,
)
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from agentrt import SpeculationSession, speculable
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Oracle
from tests.adapters.langchain.graphs import (
    INPUT,
    ONE,
    Build,
    asking,
    async_tool,
    calling,
    judged,
    loop,
    run,
    speculating,
)


class _Firewall(AgentMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage("blocked", tool_call_id=request.tool_call["id"])

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.wrap_tool_call(request, handler)


async def _blocking(request: Any, handler: Any) -> Any:
    return ToolMessage("blocked", tool_call_id=request.tool_call["id"])


@after_model(can_jump_to=["end"])
def _stop(state: Any, runtime: Any) -> Any:
    return {"jump_to": "end"}


def agent_with(*middleware: Any, **options: Any) -> Build:
    """Return the builder of an agent with this middleware."""
    return lambda model, look: create_agent(
        model, [look], middleware=middleware, checkpointer=InMemorySaver(), **options
    )


def _hitl(**options: Any) -> Build:
    return agent_with(HumanInTheLoopMiddleware(**options))


def graph_with(tools: Callable[[BaseTool], Any] = lambda look: ToolNode([look]), **options: Any) -> Build:
    """Return the builder of a graph of a model and a node for its tools."""
    return lambda model, look: loop(asking(model, look), tools(look)).compile(InMemorySaver(), **options)


def _asking_calls(look: BaseTool) -> Any:
    async def tools(state: MessagesState) -> Any:
        if interrupt("may I?") == "yes":
            return await calling(look)(state)
        calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return {"messages": [ToolMessage("rejected", tool_call_id=calls[0]["id"])]}

    return tools


def _reviewed(tools: Callable[[BaseTool], Any], *, declared: bool) -> Build:
    """Return the builder of a graph in which a person reviews calls in a node of its own."""

    async def review(state: MessagesState) -> Any:
        return Command(goto="tools" if interrupt("may I?") == "yes" else END)

    def build(model: Any, look: BaseTool) -> Any:
        graph = (
            StateGraph(MessagesState).add_node("agent", asking(model, look)).add_node("tools", tools(look))
        )
        graph.add_node("review", review, destinations=("tools", END) if declared else None)
        graph.add_edge(START, "agent").add_edge("agent", "review").add_edge("tools", "agent")
        return graph.compile(InMemorySaver())

    return build


def _everything(model: Any, look: BaseTool) -> Any:
    """Return a function that asks the model, a person and the tool."""
    ask, call = asking(model, look), calling(look)

    async def everything(state: MessagesState) -> Any:
        answer = await ask(state)
        if interrupt("may I?") == "yes":
            await call(answer)
        return answer

    return everything


def _own_loop(model: Any, look: BaseTool) -> Any:
    graph = StateGraph(MessagesState).add_node("everything", _everything(model, look))
    return graph.add_edge(START, "everything").compile(InMemorySaver())


def _workflow(model: Any, look: BaseTool) -> Any:
    return entrypoint(checkpointer=InMemorySaver())(_everything(model, look))


def _outer_tools(model: Any, look: BaseTool) -> Any:
    """Build a graph whose model is in a subgraph, and whose tools wait for a person."""
    inner = StateGraph(MessagesState).add_node("ask", asking(model, look)).add_edge(START, "ask").compile()
    return loop(inner, ToolNode([look])).compile(InMemorySaver(), interrupt_before=["tools"])


_NO: Any = Command(resume="no")
_REJECT: Any = Command(resume={"decisions": [{"type": "reject", "message": "no"}]})
_REJECT_ONE: Any = Command(resume={"type": "reject", "message": "no"})
_REVIEW: Any = {"allowed_decisions": ["approve", "reject"]}
_WHEN: Any = {**_REVIEW, "when": lambda request: True}

GUARDED: Mapping[str, tuple[Build, Any]] = {
    "human_in_the_loop": (_hitl(interrupt_on={"look": True}), _REJECT),
    "human_in_the_loop_when": (_hitl(interrupt_on={"look": _WHEN}), _REJECT),
    "human_in_the_loop_per_call": (
        _hitl(interrupt_on={"look": _REVIEW}, interrupt_mode="per_call"),
        _REJECT_ONE,
    ),
    "wrap_tool_call": (agent_with(wrap_tool_call(_blocking)), None),
    "wrap_tool_call_among_others": (
        agent_with(ToolRetryMiddleware(), _Firewall(), HumanInTheLoopMiddleware({})),
        None,
    ),
    "after_model": (agent_with(_stop), None),
    "agent_interrupt_before": (agent_with(interrupt_before=["tools"]), None),
    "agent_interrupt_after": (agent_with(interrupt_after=["model"]), None),
    "tool_node_wrapper": (graph_with(lambda look: ToolNode([look], awrap_tool_call=_blocking)), None),
    "graph_interrupt_before": (graph_with(interrupt_before=["tools"]), None),
    "graph_interrupt_before_function": (graph_with(calling, interrupt_before=["tools"]), None),
    "graph_interrupt_everywhere": (graph_with(interrupt_before="*"), _NO),
    "review_node": (_reviewed(lambda look: ToolNode([look]), declared=True), _NO),
    "review_node_undeclared": (_reviewed(calling, declared=False), _NO),
    "interrupt_in_the_tools_node": (graph_with(_asking_calls), _NO),
    "interrupt_in_the_only_node": (_own_loop, _NO),
    "interrupt_in_a_workflow": (_workflow, _NO),
    "interrupt_around_a_subgraph": (_outer_tools, None),
}
"""Agents by the kind of their guard, with the answer that a person gives when the graph has paused."""

UNGUARDED: Mapping[str, Build] = {
    "agent with middleware": agent_with(ToolRetryMiddleware(), HumanInTheLoopMiddleware({"send": True})),
    "functions for tools": graph_with(calling),
}
"""Agents that let the call pass: they show that the draft would have run in time."""


def _session_runs(offered: str, **options: Any) -> int:
    runs: list[str] = []

    async def main() -> None:
        schema = {"type": "function", "function": {"name": offered}}
        async with SpeculationSession([async_tool(0, runs, **options)], Oracle(ONE, delay=0)) as session:
            with session.turn([{"role": "user", "content": "hi"}], [schema]) as turn:
                await asyncio.sleep(10)
                turn.bind([])

    run_in_virtual_time(main)
    return len(runs)


def _runs_of_an_interrupting_tool() -> int:
    runs: list[str] = []

    @speculable
    @tool
    async def look(q: str) -> str:
        """Look something up, if a person agrees."""
        if interrupt("may I?") == "yes":
            runs.append(q)
        return "done"

    run(agent_with()(speculating(), look), INPUT, _NO)
    return len(runs)


def guard_bypasses() -> dict[str, int]:
    """Return by kind of guard how many times the tool has run although the guard rejected its call."""
    bypasses = {
        kind: judged(build, INPUT, *[answer] * (answer is not None))[0]
        for kind, (build, answer) in GUARDED.items()
    }
    return {
        **bypasses,
        "interrupt_in_the_tool": _runs_of_an_interrupting_tool(),
        "tool_guard": _session_runs("look", guard=lambda arguments: arguments["q"] != "q0"),
        "not_offered": _session_runs("other"),
    }
