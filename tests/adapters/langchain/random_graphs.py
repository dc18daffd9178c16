"""Graphs with gates before their tool, in random shapes: each is run on a scripted model."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

from agentrt import speculable
from agentrt.adapters.langchain import allow_speculation, report_of
from agentrt.testing import run_in_virtual_time
from tests.adapters.langchain.graphs import INPUT, calling, in_line, speculating

_APPROVE: Any = {"decisions": [{"type": "approve"}]}


@dataclass
class Log:
    """What a run did, in order: ``"gate"`` where a gate has decided on the call, ``"tool"`` where it ran."""

    events: list[str] = field(default_factory=list)

    def gate(self) -> None:
        self.events.append("gate")

    @property
    def ran_early(self) -> bool:
        """Whether a gate decided on the call after its tool had run."""
        return "gate" in self.events[self.events.index("tool") :] if "tool" in self.events else False


# How a node leads on.

EXITS = (
    *("edge", "mapped", "literal", "undeclared", "send", "declared_send"),
    *("command", "declared_command", "command_send"),
)
"""A static edge; a branch with a path map, with a return annotation, without either, with ``Send``, and with
``Send`` and a path map; a ``Command`` without and with declared destinations, and one with ``Send``."""
DECLARED = ("edge", "mapped", "literal", "declared_send", "declared_command")


@dataclass
class Exit:
    """The way from the node ``name`` to the next one, which ``target`` returns when the node ends."""

    name: str
    kind: str
    targets: Sequence[str]
    target: Callable[[], str]

    def answer(self, state: Any, **update: Any) -> Any:
        """Return what the node returns."""
        if "command" not in self.kind:
            return update
        to = self.target()
        if self.kind == "command_send" and to != END:
            messages = [*state["messages"], *update.get("messages", [])]
            return Command(update=update, goto=Send(to, {"messages": messages}))
        return Command(update=update, goto=to)

    def add_to(self, graph: Any) -> None:
        ends = list(self.targets)
        if self.kind == "edge":
            for target in ends:
                graph.add_edge(self.name, target)
        elif self.kind == "literal":

            def annotated(state: Any) -> Any:
                return self.target()

            annotated.__annotations__["return"] = Literal[tuple(ends)]
            graph.add_conditional_edges(self.name, annotated)
        elif self.kind in ("mapped", "undeclared", "send", "declared_send"):
            sends = "send" in self.kind

            def route(state: Any):  # type: ignore[no-untyped-def]
                to = self.target()
                return Send(to, {"messages": state["messages"]}) if sends and to != END else to

            declared = self.kind in ("mapped", "declared_send")
            graph.add_conditional_edges(self.name, route, ends if declared else None)

    @property
    def destinations(self) -> Any:
        return tuple(self.targets) if self.kind == "declared_command" else None


# What stands between the model and its tool.


@dataclass(frozen=True)
class Station:
    """A node between the model and the tool. ``again`` is whether the model's node is passed after it."""

    kind: str
    exit: str
    again: bool = False
    defer: bool = False


STATIONS = ("gate", "denial", "interrupt", "subgraph", "plain", "marked", "subclass", "lambda")


@dataclass(frozen=True)
class Shape:
    """A graph of a model, stations and a tool."""

    model: str = "function"
    exit: str = "literal"
    stations: Sequence[Station] = ()
    tools: str = "node"
    after: str = "edge"
    entry: str = "edge"
    prepare: bool = False
    respond: str = ""
    around: str = ""
    pauses: Sequence[tuple[str, str]] = ()
    at_invocation: bool = False
    callback: bool = False
    asks_again: bool = False
    beside: str = ""

    @property
    def denies(self) -> bool:
        """Whether the call is denied."""
        return any(station.kind == "denial" for station in self.stations)


BESIDE = ("step", "join", "defer")
"""A gate that starts with the model: it ends after it in the same step, or the tool is joined or deferred."""
MODELS = ("function", "sequence", "subgraph", "subgraph_to_parent", "interrupt", "method")
TOOLS = (
    *("node", "bound", "wrapper", "function", "function_interrupt", "subgraph", "sequence"),
    *("wrapped_tool", "tool_callback", "replaced_method", "replaced_function", "subclass __init__"),
    *("subclass ainvoke", "subclass _afunc", "subclass _arun_one", "subclass _parse_input"),
    "subclass _execute_tool_async",
)


def run_shape(shape: Shape) -> tuple[Log, Any]:
    return run_gated(shape, lambda model, log: _build(shape, model, log))


def run_gated(shape: Any, build: Callable[[Any, Log], Any]) -> tuple[Log, Any]:
    """Run the graph to its end, with a person who lets everything pass; return its log and the report."""
    log, model = Log(), speculating()
    run_in_virtual_time(lambda: _drive(build(model, log), shape, log))
    return log, report_of(model)


def looking(log: Log) -> BaseTool:
    @speculable
    @tool
    async def look(q: str) -> str:
        """Look something up."""
        log.events.append("tool")
        return f"found {q}"

    return look


async def _drive(app: Any, shape: Any, log: Log) -> None:
    config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 60}
    if shape.callback:
        config["callbacks"] = [_Approval(log)]
    pauses = pauses_of(shape) if shape.at_invocation else {}
    given: Any = INPUT
    gating = shape.pauses[:1] in GATING
    for _ in range(30):
        await app.ainvoke(given, config, **pauses)
        state = await app.aget_state(config)
        if not state.next:
            return
        asked = state.interrupts
        by_node = bool(asked) and asked[0].value == "?"
        if gating or (asked and not by_node):
            log.gate()
            gating = False
        given = Command(resume="yes" if by_node else _APPROVE) if asked else None
    raise AssertionError(f"{shape} did not end: {log.events}")


# The first pause at these nodes is before the tool; one at the others has not to do with the call.
GATING: Any = ([("before", "tools")], [("after", "model")])


def pauses_of(shape: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for moment, node in shape.pauses:
        found.setdefault(f"interrupt_{moment}", []).append(node)
    return found


def _build(shape: Shape, model: Any, log: Log) -> Any:
    """Compile the graph of ``shape``."""
    look = looking(log)
    if shape.beside == "defer":  # what is sent to a node does not wait
        unsent = {"send": "undeclared", "declared_send": "mapped", "command_send": "command"}
        stations = [replace(each, exit=unsent.get(each.exit, each.exit)) for each in shape.stations]
        shape = replace(shape, exit=unsent.get(shape.exit, shape.exit), stations=stations)
    names = [f"station_{number}" for number in range(len(shape.stations))]
    path = ["model"]
    for name, station in zip(names, shape.stations, strict=True):
        path += [name, *["model"] * station.again]
    path += ["tools", "model", "respond" if shape.respond else END]
    after: dict[str, list[str]] = {}  # where each node leads, visit by visit
    for here, there in itertools.pairwise(path):
        after.setdefault(here, []).append(there)
    after_model = after["model"]
    following_model = after_model[0]
    if shape.beside == "join":
        after_model[0] = END

    visits: list[str] = []
    to_parent = shape.model == "subgraph_to_parent"
    kind, ends = "command" if to_parent else shape.exit, list(dict.fromkeys(after_model))
    if shape.model == "subgraph" and "command" in kind:
        kind = "undeclared"
    if kind == "edge" and len(ends) > 1:
        kind = "mapped"
    exit = Exit("model", kind, ends, lambda: after_model[len(visits) - 1])
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", _model(shape, model, look, visits, exit, log), destinations=exit.destinations)
    exit.add_to(graph)
    for name, station in zip(names, shape.stations, strict=True):
        leaving = _leaving(name, station, after[name][0])
        node = _station(station, leaving, log)
        graph.add_node(name, node, destinations=leaving.destinations, defer=station.defer)
        leaving.add_to(graph)
    graph.add_node("tools", _tools(shape, look, log), defer=shape.beside == "defer")
    Exit("tools", shape.after, ["model"], lambda: "model").add_to(graph)
    if shape.beside:
        _add_beside(shape, graph, following_model, log)
    first = "prepare" if shape.prepare else "model"
    Exit(START, shape.entry, [first], lambda: first).add_to(graph)
    if shape.prepare:
        graph.add_node("prepare", _nothing).add_edge("prepare", "model")
    if shape.respond:
        graph.add_node("respond", _nothing, destinations=(END,) if shape.respond == "declared" else None)
        graph.add_edge("respond", END)
    return _around(shape, graph, log)


def _add_beside(shape: Shape, graph: Any, following: str, log: Log) -> None:
    async def gate(state: MessagesState) -> Any:
        await asyncio.sleep(20)  # longer than the model
        log.gate()
        return {}

    graph.add_node("beside", gate if shape.beside == "step" else _marked).add_edge(START, "beside")
    if shape.beside != "step":  # the gate is not in the model's step
        graph.add_node("gate", gate).add_edge("beside", "gate")
    if shape.beside == "join":
        graph.add_node("joined", _marked).add_edge(["model", "gate"], "joined").add_edge("joined", following)


def _leaving(name: str, station: Station, following: str) -> Exit:
    if station.kind == "denial":
        kind = "mapped" if station.exit == "edge" else station.exit
        return Exit(name, kind, [following, END], lambda: END)
    kind = "edge" if station.kind == "lambda" and "command" in station.exit else station.exit
    return Exit(name, kind, [following], lambda: following)


async def _nothing(state: MessagesState) -> Any:
    return {}


@allow_speculation
async def _marked(state: MessagesState) -> Any:
    return {}


def _around(shape: Shape, graph: Any, log: Log) -> Any:
    """Compile the graph, within another one if the shape has one around it."""
    pauses = {} if shape.at_invocation else pauses_of(shape)
    if not shape.around:
        return graph.compile(checkpointer=InMemorySaver(), **pauses)
    inner = graph.compile(**pauses)

    async def call(state: MessagesState) -> Any:
        return await inner.ainvoke(state)

    async def gate(state: MessagesState) -> Any:
        log.gate()
        return {}

    within = inner if shape.around == "node" else call
    return in_line(gate=gate, inner=within, after=_nothing).compile(InMemorySaver())


def _model(shape: Shape, model: Any, look: BaseTool, visits: list[str], exit: Exit, log: Log) -> Any:
    bound = model.bind_tools([look])

    async def asked(state: Any) -> Any:
        last = state["messages"][-1]
        passed = last.type == "ai" and last.tool_calls and not shape.asks_again
        return {} if passed else {"messages": [await bound.ainvoke(state["messages"])]}

    async def visited(state: MessagesState) -> Any:
        update = await asked(state)
        visits.append("")
        return update

    async def function(state: MessagesState) -> Any:
        return exit.answer(state, **await visited(state))

    async def asking(state: MessagesState) -> Any:
        update = await asked(state)
        if not visits:
            interrupt("?")
            log.gate()
        visits.append("")
        return exit.answer(state, **update)

    class Agent:
        async def step(self, state: MessagesState) -> Any:
            return await function(state)

    async def handing_over(state: MessagesState) -> Any:
        update = await visited(state)
        to = exit.target()
        return update if to == END else Command(graph=Command.PARENT, update=update, goto=to)

    async def read(state: MessagesState) -> Any:
        seen.update(state)
        return state["messages"]

    async def write(answer: Any) -> Any:
        visits.append("")
        return exit.answer(seen, messages=[answer])

    seen: dict[str, Any] = {}
    if shape.model == "sequence":
        return RunnableLambda(read) | bound | RunnableLambda(write)
    if shape.model.startswith("subgraph"):
        return in_line(ask=handing_over if "parent" in shape.model else function).compile()
    return {"interrupt": asking, "method": Agent().step}.get(shape.model, function)


def _station(station: Station, leaving: Exit, log: Log) -> Any:
    async def plain(state: MessagesState) -> Any:
        return leaving.answer(state)

    @allow_speculation
    async def marked(state: MessagesState) -> Any:
        return leaving.answer(state)

    async def gate(state: MessagesState) -> Any:
        log.gate()
        return leaving.answer(state)

    async def asking(state: MessagesState) -> Any:
        interrupt("?")
        return await gate(state)

    class Gate(RunnableLambda[Any, Any]):
        async def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
            log.gate()
            return await super().ainvoke(*args, **kwargs)

    async def to_parent(state: MessagesState) -> Any:
        log.gate()
        return Command(graph=Command.PARENT, goto=leaving.target())

    if station.kind == "subgraph":
        return in_line(gate=to_parent if "command" in station.exit else asking).compile()
    others = {"interrupt": asking, "plain": plain, "marked": marked, "subclass": Gate(marked)}
    others["lambda"] = RunnableLambda(plain) | RunnableLambda(gate)
    return others.get(station.kind, gate)


def _tools(shape: Shape, look: BaseTool, log: Log) -> Any:
    kind, _, method = shape.tools.partition(" ")

    async def gate(state: Any) -> Any:
        log.gate()
        return state

    async def wrapper(request: Any, handler: Any) -> Any:
        log.gate()
        return await handler(request)

    async def asking(state: MessagesState) -> Any:
        interrupt("?")
        log.gate()
        return await calling(look)(state)

    async def asking_first(q: str) -> str:
        """Look something up."""
        log.gate()
        return str(await look.ainvoke({"q": q}))

    if kind.startswith("function"):
        return asking if kind == "function_interrupt" else calling(look)
    if kind == "subclass":
        return _subclass(method, log)([look])
    if kind == "wrapped_tool":
        return ToolNode([StructuredTool.from_function(coroutine=asking_first, name="look")])
    node: Any = ToolNode([look], awrap_tool_call=wrapper if kind == "wrapper" else None)
    if kind == "tool_callback":
        look.callbacks = [_Approval(log)]
    elif kind == "subgraph":
        return in_line(gate=gate, node=node).compile()
    elif kind.startswith("replaced"):
        name = "ainvoke" if kind == "replaced_method" else "afunc"
        plain = getattr(node, name)

        async def replacing(*args: Any, **kwargs: Any) -> Any:
            log.gate()
            return await plain(*args, **kwargs)

        setattr(node, name, replacing)
    elif kind == "bound":
        return node.with_config(tags=["a"])
    elif kind == "sequence":
        return RunnableLambda(gate) | node
    return node


def _subclass(method: str, log: Log) -> Any:
    """Return a subclass of ``ToolNode`` with a gate in ``method``."""

    def gated(self: Any, *args: Any, **kwargs: Any) -> Any:
        if method != "__init__":
            log.gate()
        return getattr(super(type(self), self), method)(*args, **kwargs)

    return type("Gated", (ToolNode,), {method: gated})


class _Approval(AsyncCallbackHandler):
    raise_error = True

    def __init__(self, log: Log) -> None:
        self._log = log

    async def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        self._log.gate()
