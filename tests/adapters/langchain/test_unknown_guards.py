"""What is not known to let calls pass is a guard: undeclared exits, subclasses, replaced methods."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    after_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, MessagesState
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from agentrt import SpeculationConfig, ToolCall
from agentrt.adapters.langchain import allow_speculation, report_of, speculate
from agentrt.config import TurnAhead
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import ScriptedChat
from tests.adapters.langchain.graphs import (
    INPUT,
    ONE,
    THREAD,
    Build,
    asking,
    async_tool,
    calling,
    chain,
    in_line,
    judged,
    loop,
    speculating,
)
from tests.adapters.langchain.guarded_agents import agent_with


def denied(state: MessagesState) -> Any:
    calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    return {"messages": [ToolMessage("denied", tool_call_id=call["id"]) for call in calls]}


async def nothing(state: MessagesState) -> Any:
    return {}


@allow_speculation
async def marked(state: MessagesState) -> Any:
    return {}


# Edges.


def asking_route(state: MessagesState) -> str:
    called = bool(state["messages"][-1].tool_calls)  # type: ignore[union-attr]
    return "tools" if called and interrupt("may I?") else END


def interrupting_branch(model: Any, look: BaseTool) -> Any:
    return loop(asking(model, look), ToolNode([look]), asking_route, ["tools", END]).compile(InMemorySaver())


def interrupting_branch_behind_a_marked_node(model: Any, look: BaseTool) -> Any:
    graph = in_line(agent=asking(model, look), step=marked).add_node("tools", ToolNode([look]))
    graph.add_conditional_edges("step", asking_route, ["tools", END]).add_edge("tools", "agent")
    return graph.compile(InMemorySaver())


def review_behind_an_undeclared_branch(model: Any, look: BaseTool) -> Any:
    async def review(state: MessagesState):  # type: ignore[no-untyped-def]
        return Command(goto="tools" if interrupt("may I?") == "yes" else END)

    async def route(state: MessagesState):  # type: ignore[no-untyped-def]
        return "review" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]

    return loop(asking(model, look), ToolNode([look]), route, review=review).compile(InMemorySaver())


def inner_loop_of_another_tool(model: Any, look: BaseTool) -> Any:
    """The inner graph loops for a tool of its own, and leaves other calls to the outer one."""
    other = async_tool(0, [])
    other.name = "other"
    inner = loop(asking(model, look, other), ToolNode([other]), lambda state: END, ["tools", END]).compile()
    graph = in_line(agent=inner, policy=denied).add_node("tools", ToolNode([look]))
    return graph.add_conditional_edges("policy", lambda state: END, ["tools", END]).compile()


@pytest.mark.parametrize(
    "build",
    [
        interrupting_branch,
        interrupting_branch_behind_a_marked_node,
        review_behind_an_undeclared_branch,
        inner_loop_of_another_tool,
    ],
)
def test_what_a_call_may_come_to_before_its_tool_is_a_guard(build: Build) -> None:
    assert judged(build)[0] == 0


@pytest.mark.parametrize("names", [(), ("critic",)])
def test_functions_are_guards_if_it_is_not_known_which_one_runs_the_tools(names: Any) -> None:
    def build(model: Any, look: BaseTool) -> Any:
        others = dict.fromkeys(names, nothing)
        ends = ["tools", *names, END]
        graph = loop(asking(model, look), calling(look), tools_condition, ends, **others)
        for name in names:
            graph.add_edge(name, "agent")
        return graph.compile()

    assert judged(build)[1].total.claims == (not names)


# Classes and functions.


def replaced() -> Any:
    middleware: Any = ToolRetryMiddleware()
    wrapped = middleware.awrap_tool_call

    @functools.wraps(wrapped)
    async def deciding(request: Any, handler: Any) -> Any:
        return await wrapped(request, handler)

    middleware.awrap_tool_call = deciding
    return middleware


@functools.wraps(marked)
async def deciding(state: MessagesState) -> Any:
    return await marked(state)


@allow_speculation
class Step:
    async def __call__(self, state: MessagesState) -> Any:
        return {}


class Stricter(Step):
    pass


@pytest.mark.parametrize(
    ("node", "claims"),
    [
        (marked, 1),
        (deciding, 0),
        (Step(), 1),
        (Stricter(), 0),
        (allow_speculation(RunnableLambda(nothing)), 1),
        (functools.partial(nothing), 0),
    ],
)
def test_what_wraps_a_marked_function_is_not_marked(node: Any, claims: int) -> None:
    def build(model: Any, look: BaseTool) -> Any:
        graph = in_line(agent=asking(model, look), step=node).add_node("tools", ToolNode([look]))
        return graph.add_conditional_edges("step", tools_condition).add_edge("tools", "agent").compile()

    assert judged(build)[1].total.claims == claims


# Middleware and nodes.


class StricterReview(HumanInTheLoopMiddleware):
    pass


class Around(AgentMiddleware):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


@allow_speculation
class Logger(AgentMiddleware):
    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    async def aafter_model(self, state: Any, runtime: Any) -> Any:
        return None


async def passing(request: Any, handler: Any) -> Any:
    return await handler(request)


@allow_speculation
async def log(request: Any, handler: Any) -> Any:
    return await handler(request)


@allow_speculation
@after_model
def count_answers(state: Any, runtime: Any) -> Any:
    return None


@dynamic_prompt
async def prompt(request: Any) -> str:
    return "be brief"


MARKED = (count_answers, allow_speculation(wrap_tool_call(passing)), Logger())
around: Any = wrap_model_call(name="around")
MIDDLEWARE: dict[str, tuple[tuple[Any, ...], int]] = {
    "subclass of a known one": ((StricterReview({}),), 0),
    "limit of the tool": ((ToolCallLimitMiddleware(tool_name="look", run_limit=1),), 0),
    "limit of another tool": ((ToolCallLimitMiddleware(tool_name="other", run_limit=1),), 1),
    "personal data of the user": ((PIIMiddleware("email"),), 1),
    "personal data of answers": ((PIIMiddleware("email", apply_to_output=True),), 0),
    "summaries": ((SummarizationMiddleware(ScriptedChat()),), 1),
    "LangChain's by its name": ((ToolRetryMiddleware(),), 1),
    "another by its name": ((wrap_tool_call(name="ToolRetryMiddleware")(passing),), 0),
    "a replaced method": ((replaced(),), 0),
    "marked": (MARKED, 1),
    "marked and another": ((*MARKED, wrap_tool_call(name="another")(passing)), 0),
    "class around the model": ((Around(),), 0),
    "function around the model": ((around(passing),), 0),
    "marked around the model": ((allow_speculation(Around()), allow_speculation(around(passing)), prompt), 1),
}


@pytest.mark.parametrize(("middleware", "claims"), MIDDLEWARE.values(), ids=MIDDLEWARE)
def test_middleware_is_a_guard_of_what_it_may_prevent(middleware: Any, claims: int) -> None:
    runs, report = judged(agent_with(*middleware))
    assert (runs, report.total.claims) == (1, claims)
    if isinstance(middleware[0], StricterReview):
        (problem,) = report.turns[0].problems
        assert str(problem).endswith(
            "was not started: the middleware StricterReview has to let the call pass"
        )


@pytest.mark.parametrize(
    ("node", "wrapper", "claims"), [(marked, log, 1), (nothing, log, 0), (marked, passing, 0)]
)
def test_nodes_and_wrappers_that_decide_nothing_say_so(node: Any, wrapper: Any, claims: int) -> None:
    def build(model: Any, look: BaseTool) -> Any:
        graph = in_line(ask=asking(model, look), count=node)
        graph.add_node("tools", ToolNode([look], awrap_tool_call=wrapper)).add_edge("tools", "ask")
        return graph.add_conditional_edges("count", tools_condition).compile()

    assert judged(build)[1].total.claims == (node is marked and wrapper is log)


@wrap_tool_call
async def redact(request: Any, handler: Any) -> Any:
    message = await handler(request)
    return message.model_copy(update={"content": "redacted"})


class Masking(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("middleware", "options", "ahead"),
    [
        ((), {}, 1),
        ((HumanInTheLoopMiddleware({"other": True}),), {}, 1),
        ((HumanInTheLoopMiddleware({"look": True}),), {}, 0),
        ((allow_speculation(redact),), {}, 0),
        ((Masking(),), {}, 0),
        ((prompt,), {}, 1),
        ((allow_speculation(Around()),), {}, 0),
        ((PIIMiddleware("email"),), {}, 1),
        ((PIIMiddleware("email", apply_to_tool_results=True),), {}, 0),
        ((), {"interrupt_after": ["tools"]}, 0),
        ((), {"interrupt_before": ["model"]}, 0),
    ],
)
def test_no_request_is_sent_ahead_past_a_guard(middleware: Any, options: Any, ahead: int) -> None:
    build, inputs = agent_with(*middleware, **options), [INPUT, *[None] * len(options)]
    _, report = judged(build, *inputs, config=SpeculationConfig(turn_ahead=TurnAhead()), before_approval=True)
    assert report.ahead.kept + report.ahead.wasted == ahead
    assert report.total.wasted == 0


# Runs that the context does not show.


@pytest.mark.parametrize(("pauses", "ran"), [({}, 1), ({"interrupt_before": ["tools"]}, 0)])
@pytest.mark.parametrize("stream_mode", ["values", "messages"])
def test_a_model_that_is_a_later_step_of_its_node_sees_the_guards(
    pauses: Any, ran: int, stream_mode: Any
) -> None:
    runs: list[str] = []
    look, model = async_tool(0, runs), speculating()
    app = loop(chain(model, look), ToolNode([look])).compile(InMemorySaver(), **pauses)

    async def main() -> None:
        async for _ in app.astream(INPUT, THREAD, stream_mode=stream_mode):
            pass

    run_in_virtual_time(main)
    assert (len(runs), report_of(model).total.claims) == (ran, ran)


def joined(chunks: list[Any]) -> Any:
    return functools.reduce(lambda left, right: left + right, chunks)


async def asked_at_once(model: Any, config: Any) -> Any:
    return await model.ainvoke("hi", config)


async def asked_in_stream(model: Any, config: Any) -> Any:
    return joined([chunk async for chunk in model.astream("hi", config)])


async def in_thread(ask: Callable[[], list[Any]]) -> Any:
    """Ask in a thread without the context of the run."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.extend(ask()))
    thread.start()
    await asyncio.to_thread(thread.join)
    return joined(answers)


@pytest.mark.parametrize(
    "ask",
    [
        asked_at_once,
        asked_in_stream,
        lambda model, config: in_thread(lambda: [model.invoke("hi", config)]),
        lambda model, config: in_thread(lambda: list(model.stream("hi", config))),
    ],
    ids=["ainvoke", "astream", "invoke in a thread", "stream in a thread"],
)
def test_a_request_with_the_configuration_of_its_run_sees_the_guards(ask: Callable[..., Any]) -> None:
    runs: list[str] = []
    look = async_tool(0, runs)
    model = speculate(ScriptedChat(script=ONE), ScriptedSpeculator([ToolCall("look", {"q": "q0"})]))
    bound = model.bind_tools([look])

    async def agent(state: MessagesState, config: RunnableConfig) -> Any:
        var_child_runnable_config.set(None)
        return {"messages": [await ask(bound, config)]}

    app = in_line(agent=agent, tools=ToolNode([look])).compile(InMemorySaver(), interrupt_before=["tools"])
    asyncio.run(app.ainvoke(INPUT, THREAD))
    assert runs == []
    assert any("interrupted before 'tools'" in each for each in report_of(model).turns[0].problems)
