"""Approvals, middleware and interrupts: what they have to let pass does not run before they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.adapters.langchain.guards import guards
from agentrt.reports.events import DraftRefused, PredictorSkipped, SpeculationStarted
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from agentrt.tools import restrictions
from tests.adapters.doubles import Calls, Decided, Oracle, ScriptedChat
from tests.adapters.langchain.graphs import (
    INPUT,
    ONE,
    THREAD,
    asking,
    async_tool,
    in_line,
    judged,
    run,
    speculating,
)
from tests.adapters.langchain.guarded_agents import GUARDED, agent_with, guard_bypasses

APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
REJECT: Any = Command(resume={"decisions": [{"type": "reject"}]})
RESPOND: Any = Command(resume={"decisions": [{"type": "respond", "message": "ask Ann"}]})


def agent(model: Any, tools: list[BaseTool], *middleware: Any, **options: Any) -> Any:
    return create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver(), **options)


def hitl(**interrupt_on: Any) -> Any:
    return HumanInTheLoopMiddleware(interrupt_on)


# Each kind of guard.


@pytest.mark.parametrize("kind", GUARDED)
def test_no_guard_is_bypassed_and_the_report_says_why(kind: str) -> None:
    build, answer = GUARDED[kind]
    runs, report = judged(build, INPUT, *[answer] * (answer is not None))
    assert (runs, report.total.wasted) == (0, 0)
    assert report.turns[0].problems


def test_without_the_graph_its_guards_are_bypassed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "enclosing_graphs", list)  # as if the graph were not there
    bypasses = guard_bypasses()
    assert {kind for kind, runs in bypasses.items() if not runs} == {
        "interrupt_in_the_tool",
        "tool_guard",
        "not_offered",
    }


# Human in the loop.


def test_a_person_approves_each_tool_by_itself() -> None:
    """Of two tools in one answer, only that which needs no approval has run when the agent pauses."""
    runs: list[str] = []
    script: list[Calls] = [[("look", {"q": "a"}), ("read", {"q": "b"})]]

    @speculable
    @tool
    async def read(q: str) -> str:
        """Read."""
        runs.append(q)
        return f"read {q}"

    predictor = ScriptedSpeculator([ToolCall(name, args) for name, args in script[0]])
    model = speculate(ScriptedChat(script=script, delay=10), predictor)
    app = agent(model, [async_tool(0, runs), read], hitl(look=True))
    run(app)
    assert runs == ["b"]
    assert report_of(model).turns[0].problems == (
        "ScriptedSpeculator drafted look: the middleware HumanInTheLoopMiddleware has to let the call pass",
    )
    state = run(app, APPROVE)
    assert runs == ["b", "a"]
    assert [m.content for m in state["messages"] if m.type == "tool"] == ["found a 3", "read b"]
    assert (report_of(model).total.claims, report_of(model).total.misses) == (1, 1)


@pytest.mark.parametrize(("answer", "content"), [(APPROVE, "found q0 3"), (REJECT, "User rejected")])
def test_a_tool_may_run_before_the_approval_if_it_says_so(answer: Any, content: str) -> None:
    runs: list[str] = []
    model = speculating()
    app = agent(model, [async_tool(0, runs, before_approval=True)], hitl(look=True))
    run(app)
    assert runs == ["q0"]
    assert str(run(app, answer)["messages"][2].content).startswith(content)
    assert runs == ["q0"]
    assert report_of(model).total.claims == (answer is APPROVE)


@pytest.mark.parametrize(
    ("decision", "reason"),
    [(REJECT, "its call was rejected"), (RESPOND, "a guard, such as a person, answered")],
)
def test_decisions_against_a_call_do_not_stop_the_speculation_of_its_tool(
    decision: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[str] = []
    model = speculating()
    app = agent(model, [async_tool(0, runs, before_approval=True)], hitl(look=True))

    async def main() -> None:
        for person in range(3):
            thread: Any = {"configurable": {"thread_id": str(person)}}
            await app.ainvoke(INPUT, thread)
            await app.ainvoke(decision, thread)

    run_in_virtual_time(main)
    look = report_of(model).tools["look"]
    assert (look.stopped, look.unclaimed > 0, look.unseen) == ("", True, 0)
    problems = [problem for turn in report_of(model).turns for problem in turn.problems]
    assert any(reason in problem for problem in problems)
    assert not caplog.records


def test_a_tools_own_guard_is_asked_also_before_an_approval() -> None:
    options: Any = {"before_approval": True, "guard": lambda arguments: arguments["q"] != "q0"}
    assert judged(agent_with(hitl(look=True)), **options)[0] == 0


# Graphs.


def test_only_the_tools_of_a_guarded_node_wait() -> None:
    """One node for safe tools, and one before which the graph is interrupted, as in LangGraph's guides."""
    runs: list[str] = []
    script: list[Calls] = [[("safe", {"q": "a"})], [("look", {"q": "b"})]]

    @speculable
    @tool
    async def safe(q: str) -> str:
        """Look up."""
        runs.append(q)
        return q

    look = async_tool(0, runs)
    model = speculating(script)

    def route(state: MessagesState) -> Any:
        calls: Any = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return {"safe": "safe", "look": "sensitive"}[calls[0]["name"]] if calls else END

    graph = in_line(ask=asking(model, safe, look))
    graph.add_node("safe", ToolNode([safe])).add_node("sensitive", ToolNode([look]))
    graph.add_conditional_edges("ask", route)
    graph.add_edge("safe", "ask").add_edge("sensitive", "ask")
    run(graph.compile(InMemorySaver(), interrupt_before=["sensitive"]))
    assert runs == ["a"]
    assert report_of(model).total.claims == 1


@pytest.mark.parametrize("timeout", [None, 60])
def test_an_agent_within_a_graph_is_judged_by_itself(timeout: float | None) -> None:
    async def write(state: MessagesState) -> Any:
        assert interrupt("publish?") == "yes"
        return {}

    def build(model: Any, look: BaseTool) -> Any:
        worker = create_agent(model, [look])

        async def work(state: MessagesState) -> Any:
            return await worker.ainvoke({"messages": state["messages"]})

        graph = StateGraph(MessagesState).add_node("work", work, timeout=timeout).add_node("write", write)
        graph.add_edge(START, "work").add_edge("work", "write")
        return graph.compile(InMemorySaver(), interrupt_after=["work"])

    assert judged(build)[1].total.claims == 1


def test_a_model_within_a_tool_is_not_judged_by_the_agent_around_it() -> None:
    inner = speculating()
    look = async_tool(0, [])

    @tool
    async def research(q: str) -> str:
        """Ask a model that has a tool of its own."""
        answer = await inner.bind_tools([look]).ainvoke("hi")
        return str((await look.ainvoke({**answer.tool_calls[0], "type": "tool_call"})).content)

    script: list[Calls] = [[("research", {"q": "x"})]]
    app = agent(ScriptedChat(script=script), [research], hitl(look=True), interrupt_after=["model"])
    state = run(app, INPUT, None, None, None)
    assert state["messages"][2].content == "found q0 3"
    assert report_of(inner).total.claims == 1


def test_a_graph_that_does_not_show_its_guards_has_some(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreadable() -> Any:
        raise KeyError("__pregel_call")

    monkeypatch.setattr(guards, "enclosing_graphs", unreadable)
    restrictions._warn_of.cache_clear()
    model = speculating([*ONE, [("look", {"q": "q1"})]])
    state = run(agent(model, [async_tool(0, [])]))
    assert state["messages"][-1].content == "done"
    assert report_of(model).total.misses == 2
    (problem,) = report_of(model).turns[0].problems
    assert "was not started: the guards of the run could not be read" in str(problem)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "no tool runs speculatively, but those with before_approval=True"
    ]


def test_a_model_without_a_graph_has_no_guards() -> None:
    runs: list[str] = []
    run_in_virtual_time(lambda: speculating().bind_tools([async_tool(0, runs)]).ainvoke("hi"))
    assert runs == ["q0"]


@wrap_tool_call
def block(request: Any, handler: Any) -> Any:
    return ToolMessage("blocked", tool_call_id=request.tool_call["id"])


@pytest.mark.parametrize(("middleware", "ran"), [((), 1), ((block,), 0), ((hitl(look=True),), 0)])
def test_sync_agents_are_guarded_alike(middleware: Any, ran: int) -> None:
    runs: list[str] = []

    @speculable
    @tool
    def look(q: str) -> str:
        """Look something up."""
        runs.append(q)
        return q

    decided = Decided(DraftRefused, PredictorSkipped, SpeculationStarted)
    predictor = ScriptedSpeculator([ToolCall("look", {"q": "q0"})])
    model = speculate(ScriptedChat(script=ONE, gate=decided.gate), predictor, observers=[decided])
    agent(model, [look], *middleware).invoke(INPUT, THREAD)
    assert len(runs) == ran


# Offered tools.


@pytest.mark.parametrize(
    ("bind", "claims"),
    [
        (lambda model, tools: model.bind_tools(tools), 1),
        (lambda model, tools: model.bind_tools(tools, tool_choice="look"), 1),
        (lambda model, tools: model.bind_tools(tools, tool_choice="other"), 0),
        (lambda model, tools: model.bind_tools(tools, tool_choice="none"), 0),
        (lambda model, tools: model.bind_tools(tools).bind(tool_choice="none"), 0),
        (lambda model, tools: model.bind_tools(tools).bind(tools=["other"]), 0),
    ],
)
def test_only_what_the_request_offers_runs(bind: Callable[..., Any], claims: int) -> None:
    runs: list[str] = []

    @speculable
    @tool
    async def other(q: str) -> str:
        """Do something else."""
        return q

    run_in_virtual_time(lambda: bind(speculating(), [async_tool(0, runs), other]).ainvoke("hi"))
    assert len(runs) == claims


# Results that must not leave the process.


def test_no_engine_gets_a_result_that_needs_an_approval() -> None:
    """As a chat model does that submits results to its server (SpecTools, Algorithm 4)."""
    taken: list[ToolCall] = []

    class Submitting(ScriptedChat):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            from agentrt.toolcache import current_result_source

            source = current_result_source()
            assert source is not None
            source.take_results(lambda finished: taken.append(finished.call))
            return await super()._agenerate(*args, **kwargs)

    def submitted(*middleware: Any) -> int:
        taken.clear()
        model = speculate(Submitting(script=ONE, delay=10), Oracle(ONE, delay=1))
        run(agent(model, [async_tool(0, [], before_approval=True)], *middleware), INPUT)
        return len(taken)

    assert submitted() == 1
    assert submitted(hitl(look=True)) == 0


# Interrupts within a tool.


@pytest.mark.parametrize("drafted", ["a", "b"])
def test_a_speculation_within_a_node_takes_no_answer_of_a_person(drafted: str) -> None:
    """The person's answer belongs to the call that the model makes, also if a draft asks first."""
    runs: list[tuple[str, str]] = []

    @speculable
    async def look(q: str) -> str:
        runs.append((q, str(interrupt(f"may I look for {q}?"))))
        return runs[-1][1]

    async def node(state: MessagesState) -> Any:
        call = ToolCall("look", {"q": "a"}, "1")
        predictor = ScriptedSpeculator([ToolCall("look", {"q": drafted})])
        async with SpeculationSession([look], predictor) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(1)
                turn.bind([call])
            assert await session.acall(call) == "yes"
        return {}

    app = in_line(node=node).compile(InMemorySaver())
    assert run(app, INPUT)["__interrupt__"][0].value == "may I look for a?"
    assert "__interrupt__" not in run(app, Command(resume="yes"))
    assert runs == [("a", "yes")]
