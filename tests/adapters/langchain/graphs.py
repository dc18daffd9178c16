"""Graphs and tools around a chat model, as users build them, and how to run them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from agentrt import speculable
from tests.adapters.doubles import Calls, Milestones

INPUT = {"messages": [("user", "hi")]}


THREE: list[Calls] = [[("look", {"q": f"q{turn}"})] for turn in range(3)]


def agent(model: Any, tools: Sequence[BaseTool]) -> Any:
    return create_agent(model, tools)


def hand_built(model: Any, tools: Sequence[BaseTool]) -> Any:
    bound = model.bind_tools(tools)

    def call(state: MessagesState) -> Any:
        return {"messages": [bound.invoke(state["messages"])]}

    async def acall(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("agent", RunnableLambda(call, afunc=acall))
    graph.add_node("tools", ToolNode(tools)).add_edge(START, "agent").add_edge("tools", "agent")
    return graph.add_conditional_edges("agent", tools_condition).compile()


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
    return [
        (m.type, m.content, [(c["name"], c["args"], c["id"]) for c in getattr(m, "tool_calls", [])])
        for m in messages
    ]


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
