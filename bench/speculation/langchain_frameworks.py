"""Agents on LangChain and LangGraph that run by a script."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agentrt.reports.report import SpeculationReport

from .scripted import Run, Script, ScriptedChat

STEPS: Any = {"recursion_limit": 1000}
GO: Any = {"messages": [("user", "go")]}


def chat_model(script: Script) -> Any:
    """Return the script's chat model, which speculates if the run is speculative."""
    from agentrt.adapters import langchain

    model = ScriptedChat(script=script)
    return langchain.speculate(model, script) if script.speculative else model


def report_of(model: Any, script: Script) -> SpeculationReport | None:
    """Return the report on a model of :func:`chat_model`."""
    from agentrt.adapters import langchain

    return langchain.report_of(model) if script.speculative else None


def own_node(make: Callable[[StructuredTool, list[Any]], list[Any]]) -> Run:
    """Return the run of a graph with a hand-written tool node: ``make`` maps tool and calls to results."""

    async def run(script: Script) -> SpeculationReport | None:
        tool = script.declared(StructuredTool.from_function(script.function()))

        def tools(state: Any) -> dict[str, Any]:
            calls = state["messages"][-1].tool_calls
            results = zip(calls, make(tool, calls), strict=True)
            return {"messages": [ToolMessage(str(said), tool_call_id=call["id"]) for call, said in results]}

        model = chat_model(script)
        await asyncio.to_thread(_graph(model.bind_tools([tool]), tools).invoke, GO, STEPS)
        return report_of(model, script)

    return run


async def tool_node(script: Script) -> SpeculationReport | None:
    """Run a graph with LangGraph's ``ToolNode``."""
    tool = _async_tool(script)
    model = chat_model(script)
    await _graph(model.bind_tools([tool]), ToolNode([tool])).ainvoke(GO, STEPS)
    return report_of(model, script)


async def created(script: Script) -> SpeculationReport | None:
    """Run an agent of ``create_agent``."""
    return await run_created(script, [_async_tool(script)])


async def run_created(script: Script, tools: list[BaseTool]) -> SpeculationReport | None:
    """Run an agent of ``create_agent`` with these tools."""
    model = chat_model(script)
    await create_agent(model, tools).ainvoke(GO, STEPS)
    return report_of(model, script)


async def deep_agent(script: Script) -> SpeculationReport | None:
    """Run an agent of deepagents, whose own middleware wraps every tool call."""
    deepagents: Any = importlib.import_module("deepagents")
    tool = _async_tool(script, before_approval=True)
    model = chat_model(script)
    await deepagents.create_deep_agent(model=model, tools=[tool]).ainvoke(GO, STEPS)
    return report_of(model, script)


async def supervisor(script: Script) -> SpeculationReport | None:
    """Run an agent under a supervisor of ``langgraph-supervisor``, which hands over to it and ends."""
    package: Any = importlib.import_module("langgraph_supervisor")
    model = chat_model(script)
    worker = create_agent(model, [_async_tool(script)], name="worker")
    await package.create_supervisor([worker], model=_HandsOver(script=script)).compile().ainvoke(GO, STEPS)
    return report_of(model, script)


class _HandsOver(ScriptedChat):
    """Supervisor's model: hands over to the agent ``worker``, once."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model itself."""
        return self

    def _answer(self, messages: Any) -> ChatResult:
        handed_over = any(isinstance(message, ToolMessage) for message in messages)
        calls = [{"name": "transfer_to_worker", "args": {}, "id": "handoff"}]
        message = AIMessage("done") if handed_over else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _async_tool(script: Script, **options: Any) -> BaseTool:
    return script.declared(StructuredTool.from_function(coroutine=script.coroutine_function()), **options)


def _graph(model: Any, tools: Any) -> Any:
    def ask(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    async def aask(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def after(state: Any) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    builder = StateGraph(MessagesState)
    builder.add_node("model", RunnableLambda(ask, afunc=aask))
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", after)
    builder.add_edge("tools", "model")
    return builder.compile()
