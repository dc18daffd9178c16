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
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from agentrt import SpeculationSession, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import Calls, Oracle, ScriptedChat

_GENERATION_S = 10
_THREAD: Any = {"configurable": {"thread_id": "1"}}
_INPUT: Any = {"messages": [("user", "hi")]}
SCRIPT: list[Calls] = [[("look", {"q": "secret"})]]
Build = Callable[[Any, BaseTool], Any]


def _hitl(**options: Any) -> Build:
    return _agent(HumanInTheLoopMiddleware(**options))


def _blocked(request: Any) -> ToolMessage:
    return ToolMessage("blocked", tool_call_id=request.tool_call["id"])


class _Firewall(AgentMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return _blocked(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return _blocked(request)


@wrap_tool_call
async def _wrapper(request: Any, handler: Any) -> Any:
    return _blocked(request)


@after_model(can_jump_to=["end"])
def _stop(state: Any, runtime: Any) -> Any:
    return {"jump_to": "end"}


def _agent(*middleware: Any, **options: Any) -> Build:
    return lambda model, look: create_agent(
        model, [look], middleware=middleware, checkpointer=InMemorySaver(), **options
    )


async def _blocking_wrapper(request: Any, handler: Any) -> Any:
    return _blocked(request)


def _graph(tools: Callable[[BaseTool], Any] = lambda look: ToolNode([look]), **options: Any) -> Build:
    """Return the builder of a graph of a model and a node for its tools."""

    def build(model: Any, look: BaseTool) -> Any:
        graph = StateGraph(MessagesState).add_node("agent", _asking(model, look))
        graph.add_node("tools", tools(look)).add_edge(START, "agent").add_edge("tools", "agent")
        graph.add_conditional_edges("agent", tools_condition)
        return graph.compile(checkpointer=InMemorySaver(), **options)

    return build


def _asking(model: Any, look: BaseTool) -> Any:
    bound = model.bind_tools([look])

    async def agent(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    return agent


async def _tool_messages(look: BaseTool, message: Any) -> list[Any]:
    return [await look.ainvoke({**call, "type": "tool_call"}) for call in message.tool_calls]


def _tool_function(look: BaseTool) -> Any:
    async def tools(state: MessagesState) -> Any:
        return {"messages": await _tool_messages(look, state["messages"][-1])}

    return tools


def _asking_tool_function(look: BaseTool) -> Any:
    async def tools(state: MessagesState) -> Any:
        message: Any = state["messages"][-1]
        if interrupt("may I?") == "yes":
            return {"messages": await _tool_messages(look, message)}
        return {"messages": [ToolMessage("rejected", tool_call_id=message.tool_calls[0]["id"])]}

    return tools


def _reviewed(tools: Callable[[BaseTool], Any], *, declared: bool) -> Build:
    """Return the builder of a graph in which a person reviews calls in a node of its own."""

    def build(model: Any, look: BaseTool) -> Any:
        async def review(state: MessagesState) -> Any:
            return Command(goto="tools" if interrupt("may I?") == "yes" else END)

        ends: Any = ("tools", END) if declared else None
        graph = StateGraph(MessagesState).add_node("agent", _asking(model, look))
        graph.add_node("review", review, destinations=ends).add_node("tools", tools(look))
        graph.add_edge(START, "agent").add_edge("agent", "review").add_edge("tools", "agent")
        return graph.compile(checkpointer=InMemorySaver())

    return build


def _own_loop(model: Any, look: BaseTool) -> Any:
    """Build a graph whose only node asks the model, a person and the tool."""
    ask = _asking(model, look)

    async def everything(state: MessagesState) -> Any:
        answer = await ask(state)
        if interrupt("may I?") == "yes":
            await _tool_messages(look, answer["messages"][0])
        return answer

    graph = StateGraph(MessagesState).add_node("everything", everything).add_edge(START, "everything")
    return graph.compile(checkpointer=InMemorySaver())


def _workflow(model: Any, look: BaseTool) -> Any:
    """Build the same with LangGraph's functional API."""
    ask = _asking(model, look)

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(state: Any) -> Any:
        answer = await ask(state)
        if interrupt("may I?") == "yes":
            await _tool_messages(look, answer["messages"][0])
        return answer

    return workflow


def _outer_tools(model: Any, look: BaseTool) -> Any:
    """Build a graph whose model is in a subgraph, and whose tools wait for a person."""
    inner = StateGraph(MessagesState).add_node("agent", _asking(model, look)).add_edge(START, "agent")
    graph = StateGraph(MessagesState).add_node("model", inner.compile()).add_node("tools", ToolNode([look]))
    graph.add_edge(START, "model").add_edge("tools", "model").add_conditional_edges("model", tools_condition)
    return graph.compile(checkpointer=InMemorySaver(), interrupt_before=["tools"])


_NO: Any = Command(resume="no")
_REJECT: Any = Command(resume={"decisions": [{"type": "reject", "message": "no"}]})
_REJECT_ONE: Any = Command(resume={"type": "reject", "message": "no"})
_REVIEW: Any = {"allowed_decisions": ["approve", "reject"]}

GUARDED: Mapping[str, tuple[Build, Any]] = {
    "human_in_the_loop": (_hitl(interrupt_on={"look": True}), _REJECT),
    "human_in_the_loop_when": (
        _hitl(interrupt_on={"look": {**_REVIEW, "when": lambda request: True}}),
        _REJECT,
    ),
    "human_in_the_loop_per_call": (
        _hitl(interrupt_on={"look": _REVIEW}, interrupt_mode="per_call"),
        _REJECT_ONE,
    ),
    "wrap_tool_call": (_agent(_wrapper), None),
    "wrap_tool_call_among_others": (
        _agent(ToolRetryMiddleware(), _Firewall(), HumanInTheLoopMiddleware({})),
        None,
    ),
    "after_model": (_agent(_stop), None),
    "agent_interrupt_before": (_agent(interrupt_before=["tools"]), None),
    "agent_interrupt_after": (_agent(interrupt_after=["model"]), None),
    "tool_node_wrapper": (
        _graph(lambda look: ToolNode([look], awrap_tool_call=_blocking_wrapper)),
        None,
    ),
    "graph_interrupt_before": (_graph(interrupt_before=["tools"]), None),
    "graph_interrupt_before_function": (_graph(_tool_function, interrupt_before=["tools"]), None),
    "graph_interrupt_everywhere": (_graph(interrupt_before="*"), _NO),
    "review_node": (_reviewed(lambda look: ToolNode([look]), declared=True), _NO),
    "review_node_undeclared": (_reviewed(_tool_function, declared=False), _NO),
    "interrupt_in_the_tools_node": (_graph(_asking_tool_function), _NO),
    "interrupt_in_the_only_node": (_own_loop, _NO),
    "interrupt_in_a_workflow": (_workflow, _NO),
    "interrupt_around_a_subgraph": (_outer_tools, None),
}
"""Agents by the kind of their guard, with the answer that a person gives when the graph has paused."""

UNGUARDED: Mapping[str, Build] = {
    "agent": _agent(ToolRetryMiddleware(), HumanInTheLoopMiddleware({"send": True})),
    "graph": _graph(),
    "graph_of_functions": _graph(_tool_function),
}
"""Agents that let the call pass: they show that the draft would have run in time."""


def looking(runs: list[str], **options: Any) -> BaseTool:
    """Return the speculable tool ``look``, which appends each run to ``runs``."""

    @speculable(**options)
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        runs.append(q)
        return f"found {q}"

    return look


def run_agent(build: Build, answer: Any, look: BaseTool) -> Any:
    """Run an agent on a speculating model, in virtual time; return the model's report.

    ``answer`` is what a person answers when the graph has paused; None if it is left so.
    """
    model = speculate(ScriptedChat(script=SCRIPT, delay=_GENERATION_S), Oracle(SCRIPT, delay=0))
    app = build(model, look)

    async def main() -> Any:
        await app.ainvoke(_INPUT, _THREAD)
        if answer is not None:
            await app.ainvoke(answer, _THREAD)
        return report_of(model)

    return run_in_virtual_time(main)


def _session_runs(look: Any, offered: str) -> None:
    async def main() -> None:
        schema = {"type": "function", "function": {"name": offered}}
        async with SpeculationSession([look], Oracle(SCRIPT, delay=0)) as session:
            with session.turn([{"role": "user", "content": "hi"}], [schema]) as turn:
                await asyncio.sleep(_GENERATION_S)
                turn.bind([])

    run_in_virtual_time(main)


def _interrupting(runs: list[str]) -> BaseTool:
    @speculable
    @tool
    async def look(q: str) -> str:
        """Look something up, if a person agrees."""
        if interrupt("may I?") == "yes":
            runs.append(q)
        return "done"

    return look


def guard_bypasses() -> dict[str, int]:
    """Return by kind of guard how many times the tool has run although the guard rejected its call."""
    bypasses: dict[str, int] = {}
    for kind, (build, answer) in GUARDED.items():
        runs: list[str] = []
        run_agent(build, answer, looking(runs))
        bypasses[kind] = len(runs)
    runs = []
    run_agent(_agent(), _NO, _interrupting(runs))
    bypasses["interrupt_in_the_tool"] = len(runs)
    runs = []
    _session_runs(looking(runs, guard=lambda arguments: arguments["q"] != "secret"), "look")
    bypasses["tool_guard"] = len(runs)
    runs = []
    _session_runs(looking(runs), "other")
    bypasses["not_offered"] = len(runs)
    return bypasses
