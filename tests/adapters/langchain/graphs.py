"""Graphs and tools around a chat model, as users build them, and how to run them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from agentrt import SpeculationConfig, SpeculationSession, ToolCall, speculable
from agentrt.adapters.langchain import report_of, speculate
from agentrt.reports.report import SpeculationReport
from agentrt.testing import ScriptedSpeculator, run_in_virtual_time
from tests.adapters.doubles import Calls, Milestones, Oracle, ScriptedChat, Silent

INPUT: Any = {"messages": [("user", "hi")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
ONE: list[Calls] = [[("look", {"q": "q0"})]]
LOOK: tuple[str, dict[str, Any]] = ("look", {"q": "a"})
THREE: list[Calls] = [[("look", {"q": f"q{turn}"})] for turn in range(3)]
Build = Callable[[Any, BaseTool], Any]
"""Returns a graph around a model and its tool."""


def asking(model: Any, *tools: BaseTool) -> Any:
    """Return a node that asks the model."""
    bound = model.bind_tools(tools)

    async def ask(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    return ask


def chain(model: Any, *tools: BaseTool) -> Any:
    """Return a node that asks the model in its second step, as in ``prompt | model``."""

    async def read(state: MessagesState) -> Any:
        return state["messages"]

    async def write(answer: Any) -> Any:
        return {"messages": [answer]}

    return RunnableLambda(read) | model.bind_tools(tools) | RunnableLambda(write)


def calling(look: BaseTool) -> Any:
    """Return a node that calls the tool for each call of the model."""

    async def call(state: MessagesState) -> Any:
        calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return {"messages": [await look.ainvoke({**call, "type": "tool_call"}) for call in calls]}

    return call


def loop(
    node: Any,
    tools: Any,
    branch: Any = tools_condition,
    path_map: Any = None,
    schema: Any = None,
    **nodes: Any,
) -> Any:
    """Return a graph of a model's node ``agent`` and one for its tools, which lead to each other.

    ``nodes`` are further ones, with edges of the caller's.
    """
    graph = StateGraph(MessagesState, context_schema=schema).add_node("agent", node).add_node("tools", tools)
    for name, other in nodes.items():
        graph.add_node(name, other)
    graph.add_edge(START, "agent").add_edge("tools", "agent")
    return graph.add_conditional_edges("agent", branch, path_map)


def in_line(**nodes: Any) -> Any:
    """Return a graph of nodes that follow each other."""
    graph = StateGraph(MessagesState).add_sequence(list(nodes.items()))
    return graph.add_edge(START, next(iter(nodes)))


def agent(model: Any, tools: Sequence[BaseTool], schema: Any = None) -> Any:
    return create_agent(model, tools, context_schema=schema)


def hand_built(model: Any, tools: Sequence[BaseTool], schema: Any = None, node: Any = None) -> Any:
    bound = model.bind_tools(tools)

    def call(state: MessagesState) -> Any:
        return {"messages": [bound.invoke(state["messages"])]}

    asked = RunnableLambda(call, afunc=asking(model, *tools))
    return loop(asked, node or ToolNode(tools), schema=schema).compile()


def speculating(script: Sequence[Calls] = ONE, config: SpeculationConfig | None = None) -> Any:
    """Return a model that answers after 10 s, beside a predictor that is right after 1 s."""
    return speculate(Silent(script=list(script), delay=10), Oracle(script, delay=1), config=config)


def run(app: Any, *inputs: Any, **options: Any) -> Any:
    """Invoke an app with each input in turn, in virtual time; return the last state."""

    async def main() -> Any:
        for each in inputs or [INPUT]:
            state = await app.ainvoke(each, THREAD, **options)
        return state

    return run_in_virtual_time(main)


def judged(
    build: Build, *inputs: Any, config: SpeculationConfig | None = None, **options: Any
) -> tuple[int, SpeculationReport]:
    """Run a graph whose model calls ``look`` once, as its predictor has drafted long before.

    ``options`` are those of the tool. Returns how often the tool has run, and the report.
    """
    model, runs = speculating(config=config), list[str]()
    run(build(model, async_tool(0, runs, **options)), *inputs)
    return len(runs), report_of(model)


@asynccontextmanager
async def after_turn(
    look: Any, drafts: Sequence[ToolCall], *calls: ToolCall
) -> AsyncIterator[SpeculationSession]:
    """Yield a session behind a turn that predicted ``drafts``, and made them or ``calls``."""
    async with SpeculationSession([look], ScriptedSpeculator(drafts)) as session:
        with session.turn([], []) as turn:
            await asyncio.sleep(40)  # in virtual time
            turn.bind(calls or drafts)
        yield session


def drive(app: Any, streamed: bool) -> list[BaseMessage]:
    if not streamed:
        messages: list[BaseMessage] = app.invoke(INPUT)["messages"]
        return messages
    return list(app.stream(INPUT, stream_mode="values"))[-1]["messages"]  # type: ignore[no-any-return]


async def adrive(app: Any, streamed: bool) -> list[BaseMessage]:
    if not streamed:
        return (await app.ainvoke(INPUT))["messages"]  # type: ignore[no-any-return]
    last: Any = None
    async for kind, part in app.astream(INPUT, stream_mode=["messages", "values"]):
        last = part if kind == "values" else last
    return last["messages"]  # type: ignore[no-any-return]


def transcript(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return what is equal with and without speculation: type, content, calls, artifact and status."""
    return [
        (
            m.type,
            m.content,
            [(c["name"], c["args"], c["id"]) for c in getattr(m, "tool_calls", [])],
            getattr(m, "artifact", None),
            getattr(m, "status", None),
        )
        for m in messages
    ]


def ran(
    *tools: BaseTool,
    build: Callable[..., Any] = agent,
    script: Sequence[Calls] = ((LOOK,),),
    drafts: Sequence[ToolCall] | None = None,
    **options: Any,
) -> tuple[list[Any], SpeculationReport]:
    """Run an agent whose first calls, or ``drafts``, are predicted; return its transcript and the report.

    ``options`` are those of ``ainvoke``.
    """
    calls = [ToolCall(*call) for call in script[0]] if drafts is None else drafts
    model = speculate(ScriptedChat(script=list(script), delay=10), ScriptedSpeculator(calls, delay=1))
    return run_in_virtual_time(lambda: _transcript_of(build(model, tools), options)), report_of(model)


def ran_plain(
    *tools: BaseTool, build: Any = agent, script: Sequence[Calls] = ((LOOK,),), **options: Any
) -> list[Any]:
    """Return the transcript of :func:`ran` without speculation."""
    app = build(ScriptedChat(script=list(script), delay=10), tools)
    return run_in_virtual_time(lambda: _transcript_of(app, options))


async def _transcript_of(app: Any, options: Any) -> list[Any]:
    return transcript((await app.ainvoke(INPUT, **options))["messages"])


def async_tool(seconds: float, runs: list[str], **options: Any) -> BaseTool:
    @speculable(**options)
    @tool
    async def look(q: str, limit: int = 3) -> str:
        """Look something up."""
        runs.append(q)
        await asyncio.sleep(seconds)
        return f"found {q} {limit}"

    return look


def sync_tool(runs: list[str], milestones: Milestones) -> BaseTool:
    @speculable
    @tool
    def look(q: str, limit: int = 3) -> str:
        """Look something up."""
        runs.append(q)
        milestones.reach(f"started {q}")
        return f"found {q} {limit}"

    return look


BUILDERS: list[Callable[..., Any]] = [agent, hand_built]


class Tracer(BaseCallbackHandler):
    """Counts what a user's callbacks see."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.seen.append("model")

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.seen.append(f"token {token}")

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.seen.append("model end")

    def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
        self.seen.append(f"tool {input_str}")

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.seen.append("tool end")
