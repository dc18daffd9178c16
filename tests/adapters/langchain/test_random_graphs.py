"""No tool runs before its gate in any graph, and graphs without a gate speculate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolRetryMiddleware,
    dynamic_prompt,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from langgraph.types import Command, RetryPolicy, Send, interrupt

from agentrt.adapters.langchain import allow_speculation, report_of
from agentrt.testing import run_in_virtual_time
from tests.adapters.doubles import ScriptedChat
from tests.adapters.langchain.graphs import (
    INPUT,
    THREAD,
    Build,
    Tracer,
    asking,
    async_tool,
    chain,
    in_line,
    judged,
    loop,
    speculating,
)
from tests.adapters.langchain.guarded_agents import UNGUARDED
from tests.adapters.langchain.random_graphs import (
    BESIDE,
    DECLARED,
    EXITS,
    GATING,
    MODELS,
    STATIONS,
    TOOLS,
    Log,
    Shape,
    Station,
    looking,
    pauses_of,
    run_gated,
    run_shape,
)

MOMENTS = st.sampled_from(("before", "after"))
STATION = st.builds(
    Station, st.sampled_from(STATIONS), st.sampled_from(EXITS), again=st.booleans(), defer=st.booleans()
)
SHAPES = st.builds(
    Shape,
    model=st.sampled_from(MODELS),
    exit=st.sampled_from(EXITS),
    stations=st.lists(STATION, max_size=2),
    tools=st.sampled_from(TOOLS),
    after=st.sampled_from(("edge", "mapped", "literal", "undeclared", "send")),
    entry=st.sampled_from(("edge", "mapped", "literal", "undeclared")),
    prepare=st.booleans(),
    respond=st.sampled_from(("", "declared", "undeclared")),
    around=st.sampled_from(("", "node", "function")),
    pauses=st.lists(st.tuples(MOMENTS, st.sampled_from(("model", "tools"))), max_size=1),
    at_invocation=st.booleans(),
    callback=st.booleans(),
    asks_again=st.booleans(),
    beside=st.sampled_from(("", *BESIDE)),
)


@given(SHAPES)
def test_no_tool_of_a_graph_runs_before_its_gate(shape: Shape) -> None:
    log, _ = run_shape(shape)
    assert not log.ran_early, log.events
    assert ("tool" in log.events) is not shape.denies


def test_the_gates_of_the_shapes_are_gates() -> None:
    """Each gate, by itself, decides on the call in its run: else the property would hold for nothing."""
    pauses = [("before", "tools")]
    gated = [Shape(model="interrupt"), Shape(callback=True), Shape(pauses=pauses)]
    gated += [Shape(pauses=pauses, at_invocation=True)]
    gated += [Shape(stations=[Station(kind, "edge")]) for kind in STATIONS if kind not in ("plain", "marked")]
    plain = ("node", "bound", "function", "subclass __init__")
    gated += [Shape(tools=tools) for tools in TOOLS if tools not in plain]
    gated += [Shape(beside=beside) for beside in BESIDE]
    for shape in gated:
        log, report = run_shape(shape)
        assert log.events == ["gate", "tool"][: 1 if shape.denies else 2], shape
        assert report.total.claims == 0


# Graphs without a gate.


def test_graphs_without_a_gate_speculate_if_they_show_it() -> None:
    """All do that declare their exits or have no other nodes before and after their loop: 24 of 54 graphs."""
    shapes = [
        Shape(exit=exit, prepare=prepare, respond=respond)
        for exit, prepare, respond in itertools.product(EXITS, (False, True), ("", "declared", "undeclared"))
    ]
    speculating = [shape for shape in shapes if run_shape(shape)[1].total.claims == 1]
    for shape in shapes:
        alone = not shape.prepare and not shape.respond
        declared = shape.exit in DECLARED and shape.respond != "undeclared"
        assert (shape in speculating) == (alone or declared), shape
    assert len(speculating) / len(shapes) >= 0.44


def route(state: MessagesState):  # type: ignore[no-untyped-def]
    return "tools" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]


def sends(state: MessagesState):  # type: ignore[no-untyped-def]
    calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    return [Send("tools", [call]) for call in calls] if calls else END


def graph(node: Any = asking, tools: Any = lambda look: ToolNode([look]), **options: Any) -> Build:
    return lambda model, look: loop(node(model, look), tools(look), **options).compile()


def react(**options: Any) -> Build:
    def build(model: Any, look: Any) -> Any:
        with pytest.warns(DeprecationWarning, match="create_react_agent"):
            return create_react_agent(model, [look], **options)

    return build


def functional(model: Any, look: Any) -> Any:
    bound = model.bind_tools([look])

    @task
    async def ask(messages: Any) -> Any:
        return await bound.ainvoke(messages)

    @task
    async def call(each: Any) -> Any:
        return await look.ainvoke({**each, "type": "tool_call"})

    @entrypoint()
    async def workflow(state: Any) -> Any:
        messages = list(state["messages"])
        while (answer := await ask(messages)).tool_calls:
            messages += [answer, *[await call(each) for each in answer.tool_calls]]
        return answer

    return workflow


def supervised(model: Any, look: Any) -> Any:
    """Build an agent that is a node of a graph, before and after nodes of its author."""
    worker = create_agent(model, [look])

    async def step(state: MessagesState) -> Any:
        return Command(goto="worker")

    async def last(state: MessagesState) -> Any:
        return {}

    made = StateGraph(MessagesState).add_node("step", step).add_node("worker", worker)
    return made.add_node("last", last).add_edge(START, "step").add_edge("worker", "last").compile()


def two_tool_nodes(model: Any, look: Any) -> Any:
    other = async_tool(0, [])
    other.name = "other"
    made = loop(asking(model, look), ToolNode([look]), route, others=ToolNode([other]))
    return made.add_edge("others", "agent").compile()


def retried(model: Any, look: Any) -> Any:
    made = StateGraph(MessagesState).add_node("agent", asking(model, look), retry_policy=RetryPolicy())
    made.add_node("tools", ToolNode([look])).add_edge(START, "agent").add_edge("tools", "agent")
    return made.add_conditional_edges("agent", tools_condition).compile()


SAFE: dict[str, Build] = {
    **UNGUARDED,
    "create_agent": lambda model, look: create_agent(model, [look]),
    "tools_condition": graph(),
    "unannotated branch": graph(branch=route),
    "path map": graph(branch=route, path_map=["tools", END]),
    "Send to a ToolNode": graph(branch=sends),
    "ToolNode with a config": graph(tools=lambda look: ToolNode([look]).with_config(run_name="a")),
    "ToolNode with retries": graph(tools=lambda look: ToolNode([look]).with_retry()),
    "retry policy": retried,
    "two ToolNodes": two_tool_nodes,
    "prompt | model": graph(chain),
    "create_react_agent": react(),
    "create_react_agent, version 1": react(version="v1"),
    "create_react_agent with a response format": react(response_format={"title": "answer", "type": "object"}),
    "create_react_agent with a prompt": react(prompt="be brief", pre_model_hook=lambda state: {}),
    "entrypoint and tasks": functional,
    "agent as a node": supervised,
}


UNKNOWN: dict[str, Build] = {
    "create_react_agent with a hook after the model": react(post_model_hook=lambda state: {}),
    "ToolNode with fallbacks": graph(tools=lambda look: ToolNode([look]).with_fallbacks([ToolNode([look])])),
    "ToolNode with listeners": graph(tools=lambda look: ToolNode([look]).with_listeners(on_start=print)),
    "ToolNode with callbacks": graph(tools=lambda look: ToolNode([look]).with_config(callbacks=[Tracer()])),
    "ToolNode in a subgraph": graph(tools=lambda look: in_line(run=ToolNode([look])).compile()),
}


@pytest.mark.parametrize("shape", UNKNOWN)
def test_unknown_graphs_do_not_speculate(shape: str) -> None:
    runs, report = judged(UNKNOWN[shape])
    assert (runs, report.total.claims) == (1, 0)


@pytest.mark.parametrize("shape", SAFE)
@pytest.mark.parametrize("events", [False, True])
def test_known_graphs_speculate(shape: str, events: bool) -> None:
    runs: list[str] = []
    model = speculating()
    app = SAFE[shape](model, async_tool(0, runs))

    async def main() -> None:
        if not events:
            await app.ainvoke(INPUT, THREAD)
            return
        async for _ in app.astream_events(INPUT, THREAD, version="v2"):
            pass

    run_in_virtual_time(main)
    assert (runs, report_of(model).total.claims) == (["q0"], 1)


# Agents of ``create_agent`` with random middleware, some of it gates.


class Gate(AgentMiddleware[Any, Any, Any]):
    """Middleware of which one method is a gate."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log


class AroundTool(Gate):
    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._log.gate()
        return await handler(request)


class AfterModel(Gate):
    async def aafter_model(self, state: Any, runtime: Any) -> Any:
        if state["messages"][-1].tool_calls:
            interrupt("?")
            self._log.gate()


class AroundModel(Gate):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        answer = await handler(request)
        if answer.result[0].tool_calls:
            self._log.gate()
        return answer


class Stricter(ToolRetryMiddleware):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._log.gate()
        return await super().awrap_tool_call(request, handler)


class BeforeModel(AgentMiddleware[Any, Any, Any]):
    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        return None


@allow_speculation
class Marked(BeforeModel):
    pass


MIDDLEWARE: dict[str, Callable[[Log], Any]] = {
    "person": lambda log: HumanInTheLoopMiddleware({"look": True}),
    "around_tool": AroundTool,
    "after_model": AfterModel,
    "around_model": AroundModel,
    "stricter": Stricter,
}
"""Middleware that is a gate."""


@dynamic_prompt
async def prompt(request: Any) -> str:
    return "be brief"


ORDINARY: dict[str, Callable[[Log], Any]] = {
    "person_for_another": lambda log: HumanInTheLoopMiddleware({"send": True}),
    "retry_tool": lambda log: ToolRetryMiddleware(),
    "retry_model": lambda log: ModelRetryMiddleware(),
    "to_do": lambda log: TodoListMiddleware(),
    "summary": lambda log: SummarizationMiddleware(ScriptedChat()),
    "pii": lambda log: PIIMiddleware("email"),
    "prompt": lambda log: prompt,
    "before_model": lambda log: BeforeModel(),
    "marked": lambda log: Marked(),
}
"""Middleware that decides nothing about the call of ``look``."""


@dataclass(frozen=True)
class Agent:
    """An agent of ``create_agent``."""

    middleware: Sequence[str] = ()
    pauses: Sequence[tuple[str, str]] = ()
    at_invocation: bool = False
    callback: bool = False
    denies = False

    @property
    def gated(self) -> bool:
        """Whether the call of ``look`` has a gate to pass."""
        return (
            self.callback or self.pauses[:1] in GATING or any(name in MIDDLEWARE for name in self.middleware)
        )


def run_agent_of(shape: Agent) -> tuple[Log, Any]:
    """Run an agent to its end, with a person who lets everything pass; return its log and the report."""

    def build(model: Any, log: Log) -> Any:
        middleware = [{**MIDDLEWARE, **ORDINARY}[name](log) for name in shape.middleware]
        settings: Any = {} if shape.at_invocation else pauses_of(shape)
        return create_agent(
            model, [looking(log)], middleware=middleware, checkpointer=InMemorySaver(), **settings
        )

    return run_gated(shape, build)


AGENTS = st.builds(
    Agent,
    middleware=st.lists(
        st.sampled_from((*MIDDLEWARE, *ORDINARY)),
        max_size=4,
        unique_by=lambda name: name.partition("_for")[0],  # an agent has each class once
    ),
    pauses=st.lists(st.tuples(MOMENTS, st.sampled_from(("model", "tools"))), max_size=1),
    at_invocation=st.booleans(),
    callback=st.booleans(),
)


@given(AGENTS)
def test_no_tool_of_an_agent_runs_before_its_gate(agent: Agent) -> None:
    log, report = run_agent_of(agent)
    assert not log.ran_early, log.events
    assert log.events.count("tool") == 1
    assert report.total.claims == (not agent.gated)
