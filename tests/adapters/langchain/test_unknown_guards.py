"""What is not known to let calls pass is a guard: undeclared exits, subclasses, replaced methods."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ToolRetryMiddleware,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from agentrt import SpeculationConfig, ToolCall
from agentrt.adapters.langchain import allow_speculation, report_of, speculate
from agentrt.config import TurnAhead
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import Calls, Oracle, ScriptedChat
from tests.adapters.langchain.graphs import INPUT, async_tool

ONE: list[Calls] = [[("look", {"q": "q0"})]]
THREAD: Any = {"configurable": {"thread_id": "1"}}


def speculating(config: SpeculationConfig | None = None) -> Any:
    return speculate(ScriptedChat(script=ONE, delay=10), Oracle(ONE, delay=1), config=config)


def asking(model: Any, *tools: BaseTool) -> Any:
    bound = model.bind_tools(tools)

    async def ask(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    return ask


def run(app: Any, **options: Any) -> None:
    run_in_virtual_time(lambda: app.ainvoke(INPUT, THREAD, **options))


def denied(state: MessagesState) -> Any:
    calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    return {"messages": [ToolMessage("denied", tool_call_id=call["id"]) for call in calls]}


async def nothing(state: MessagesState) -> Any:
    return {}


# Edges.


def test_a_branch_behind_the_model_that_interrupts_is_a_guard() -> None:
    runs: list[str] = []
    look, model = async_tool(0, runs), speculating()

    def route(state: MessagesState) -> str:
        called = bool(state["messages"][-1].tool_calls)  # type: ignore[union-attr]
        return "tools" if called and interrupt("may I?") else END

    graph = StateGraph(MessagesState).add_node("agent", asking(model, look))
    graph.add_node("tools", ToolNode([look])).add_edge(START, "agent").add_edge("tools", "agent")
    graph.add_conditional_edges("agent", route, ["tools", END])
    run(graph.compile(checkpointer=InMemorySaver()))
    assert runs == []


def test_a_review_behind_an_undeclared_branch_is_on_the_way() -> None:
    runs: list[str] = []
    look, model = async_tool(0, runs), speculating()

    async def review(state: MessagesState):  # type: ignore[no-untyped-def]
        return Command(goto="tools" if interrupt("may I?") == "yes" else END)

    async def route(state: MessagesState):  # type: ignore[no-untyped-def]
        return "review" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]

    graph = StateGraph(MessagesState).add_node("agent", asking(model, look)).add_node("review", review)
    graph.add_node("tools", ToolNode([look])).add_edge(START, "agent").add_edge("tools", "agent")
    app = graph.add_conditional_edges("agent", route).compile(checkpointer=InMemorySaver())
    run(app)
    assert runs == []


def with_another_node(exit: Any, path_map: Any, **options: Any) -> int:
    """Return the claims in a graph with a node before the loop and one after it."""
    look, model = async_tool(0, []), speculating()
    graph = StateGraph(MessagesState).add_node("agent", asking(model, look)).add_node("before", nothing)
    graph.add_node("tools", ToolNode([look])).add_edge(START, "before").add_edge("before", "agent")
    graph.add_node("last", nothing, **options).add_conditional_edges("agent", exit, path_map)
    run(graph.add_edge("tools", "agent").compile())
    return int(report_of(model).total.claims)


def undeclared(state: MessagesState):  # type: ignore[no-untyped-def]
    return "tools" if state["messages"][-1].tool_calls else "last"  # type: ignore[union-attr]


def annotated(state: MessagesState) -> Literal["tools", "last"]:
    return undeclared(state)  # type: ignore[no-any-return]


def test_declared_exits_are_believed() -> None:
    assert with_another_node(annotated, None, destinations=(END,)) == 1
    assert with_another_node(undeclared, ["tools", "last"], destinations=(END,)) == 1
    assert with_another_node(undeclared, None, destinations=(END,)) == 0
    assert with_another_node(annotated, None) == 0  # the last node may return a Command


def test_the_outer_graph_guards_what_the_inner_one_does_not_run() -> None:
    """The inner graph loops for a tool of its own, and leaves other calls to the outer one."""
    runs: list[str] = []
    look, other, model = async_tool(0, runs), async_tool(0, []), speculating()
    other.name = "other"
    inner = StateGraph(MessagesState).add_node("agent", asking(model, look, other)).add_edge(START, "agent")
    inner.add_node("others", ToolNode([other])).add_edge("others", "agent")
    inner.add_conditional_edges("agent", lambda state: END, ["others", END])
    graph = StateGraph(MessagesState).add_node("agent", inner.compile()).add_node("policy", denied)
    graph.add_node("tools", ToolNode([look])).add_edge(START, "agent").add_edge("agent", "policy")
    graph.add_conditional_edges("policy", lambda state: END, ["tools", END])
    run(graph.compile())
    assert runs == []


def test_functions_are_guards_if_it_is_not_known_which_one_runs_the_tools() -> None:
    def claims(*names: str) -> int:
        look, model = async_tool(0, []), speculating()

        async def tools(state: MessagesState) -> Any:
            calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
            return {"messages": [await look.ainvoke({**call, "type": "tool_call"}) for call in calls]}

        graph = StateGraph(MessagesState).add_node("agent", asking(model, look)).add_edge(START, "agent")
        graph.add_node("tools", tools).add_edge("tools", "agent")
        for name in names:
            graph.add_node(name, nothing).add_edge(name, "agent")
        graph.add_conditional_edges("agent", tools_condition, ["tools", *names, END])
        run(graph.compile())
        return int(report_of(model).total.claims)

    assert claims() == 1
    assert claims("critic") == 0


# Classes and functions.


class Policy(ToolNode):
    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return denied(input)


class Policies(ToolNode):
    async def _afunc(self, input: Any, config: Any, runtime: Any) -> Any:
        return denied(input)


@pytest.mark.parametrize(("kind", "ran"), [(ToolNode, 1), (Policy, 0), (Policies, 0)])
def test_a_subclass_of_a_tool_node_is_a_guard(kind: Any, ran: int) -> None:
    runs: list[str] = []
    look, model = async_tool(0, runs), speculating()
    graph = StateGraph(MessagesState).add_node("agent", asking(model, look)).add_edge(START, "agent")
    graph.add_node("tools", kind([look])).add_conditional_edges("agent", tools_condition)
    run(graph.add_edge("tools", END).compile())
    assert len(runs) == ran


def claims_of_agent(*middleware: Any) -> int:
    model = speculating()
    run(create_agent(model, [async_tool(0, [])], middleware=middleware))
    return int(report_of(model).total.claims)


async def passing(request: Any, handler: Any) -> Any:
    return await handler(request)


def test_only_langchains_own_middleware_goes_by_its_name() -> None:
    assert claims_of_agent(ToolRetryMiddleware()) == 1
    assert claims_of_agent(wrap_tool_call(name="ToolRetryMiddleware")(passing)) == 0
    replaced: Any = ToolRetryMiddleware()
    wrapped = replaced.awrap_tool_call

    @functools.wraps(wrapped)
    async def deciding(request: Any, handler: Any) -> Any:
        return await wrapped(request, handler)

    replaced.awrap_tool_call = deciding
    assert claims_of_agent(replaced) == 0


class Around(AgentMiddleware):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


@dynamic_prompt
async def prompt(request: Any) -> str:
    return "be brief"


def test_middleware_around_the_model_is_a_guard_unless_it_says_otherwise() -> None:
    around: Any = wrap_model_call(name="around")
    assert claims_of_agent(Around()) == 0
    assert claims_of_agent(around(passing)) == 0
    assert claims_of_agent(allow_speculation(Around()), allow_speculation(around(passing)), prompt) == 1


@pytest.mark.parametrize(("middleware", "ahead"), [(prompt, 1), (allow_speculation(Around()), 0)])
def test_no_request_is_sent_ahead_of_middleware_around_the_model(middleware: Any, ahead: int) -> None:
    class Silent(ScriptedChat):
        def _begin(self, messages: Any) -> Any:
            message = super()._begin(messages)
            return message.model_copy(update={"content": ""}) if message.tool_calls else message

    config = SpeculationConfig(turn_ahead=TurnAhead())
    model = speculate(Silent(script=ONE, delay=10), Oracle(ONE, delay=1), config=config)
    run(create_agent(model, [async_tool(0, [])], middleware=[middleware]))
    report = report_of(model)
    assert report.ahead.kept + report.ahead.wasted == ahead
    assert report.total.claims == 1


def test_what_wraps_a_marked_function_is_not_marked() -> None:
    def claims(node: Any) -> int:
        look, model = async_tool(0, []), speculating()
        graph = StateGraph(MessagesState).add_node("agent", asking(model, look)).add_node("step", node)
        graph.add_node("tools", ToolNode([look])).add_edge(START, "agent").add_edge("agent", "step")
        graph.add_conditional_edges("step", tools_condition).add_edge("tools", "agent")
        run(graph.compile())
        return int(report_of(model).total.claims)

    @allow_speculation
    async def marked(state: MessagesState) -> Any:
        return {}

    @functools.wraps(marked)
    async def deciding(state: MessagesState) -> Any:
        return await marked(state)

    @allow_speculation
    class Step:
        async def __call__(self, state: MessagesState) -> Any:
            return {}

    class Stricter(Step):
        pass

    assert (claims(marked), claims(deciding)) == (1, 0)
    assert (claims(Step()), claims(Stricter())) == (1, 0)
    assert claims(allow_speculation(RunnableLambda(nothing))) == 1
    assert claims(functools.partial(nothing)) == 0


# Runs that the context does not show.


@pytest.mark.parametrize(("pauses", "ran"), [({}, 1), ({"interrupt_before": ["tools"]}, 0)])
@pytest.mark.parametrize("stream_mode", ["values", "messages"])
def test_a_model_that_is_a_later_step_of_its_node_sees_the_guards(
    pauses: Any, ran: int, stream_mode: Any
) -> None:
    runs: list[str] = []
    look, model = async_tool(0, runs), speculating()

    async def read(state: MessagesState) -> Any:
        return state["messages"]

    async def write(answer: Any) -> Any:
        return {"messages": [answer]}

    step: Any = RunnableLambda(read) | model.bind_tools([look]) | RunnableLambda(write)
    graph = StateGraph(MessagesState).add_node("agent", step).add_node("tools", ToolNode([look]))
    graph.add_edge(START, "agent").add_edge("tools", "agent").add_conditional_edges("agent", tools_condition)
    app = graph.compile(checkpointer=InMemorySaver(), **pauses)

    async def main() -> None:
        async for _ in app.astream(INPUT, THREAD, stream_mode=stream_mode):
            pass

    run_in_virtual_time(main)
    assert len(runs) == ran
    assert report_of(model).total.claims == ran


async def asked_at_once(model: Any, config: Any) -> Any:
    return await model.ainvoke("hi", config)


async def asked_in_stream(model: Any, config: Any) -> Any:
    chunks = [chunk async for chunk in model.astream("hi", config)]
    return functools.reduce(lambda left, right: left + right, chunks)


async def asked_in_thread(model: Any, config: Any) -> Any:
    """Ask in a thread without the context of the run."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(model.invoke("hi", config)))
    thread.start()
    await asyncio.to_thread(thread.join)
    return answers[0]


async def streamed_in_thread(model: Any, config: Any) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.extend(model.stream("hi", config)))
    thread.start()
    await asyncio.to_thread(thread.join)
    return functools.reduce(lambda left, right: left + right, answers)


@pytest.mark.parametrize("ask", [asked_at_once, asked_in_stream, asked_in_thread, streamed_in_thread])
def test_a_request_with_the_configuration_of_its_run_sees_the_guards(ask: Callable[..., Any]) -> None:
    runs: list[str] = []
    look = async_tool(0, runs)
    model = speculate(ScriptedChat(script=ONE), ScriptedSpeculator([ToolCall("look", {"q": "q0"})]))
    bound = model.bind_tools([look])

    async def agent(state: MessagesState, config: RunnableConfig) -> Any:
        var_child_runnable_config.set(None)
        return {"messages": [await ask(bound, config)]}

    graph = StateGraph(MessagesState).add_node("agent", agent).add_node("tools", ToolNode([look]))
    graph.add_edge(START, "agent").add_edge("agent", "tools")
    asyncio.run(graph.compile(InMemorySaver(), interrupt_before=["tools"]).ainvoke(INPUT, THREAD))
    assert runs == []
    assert any("interrupted before 'tools'" in each for each in report_of(model).turns[0].problems)
