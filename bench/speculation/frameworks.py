"""Tool runs and claims in agents of several frameworks, each with drafts that are always right.

A tool must run once for each of the model's calls, however a framework makes the call: with its id, without
one, or with an id that the endpoint repeats.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agentrt import speculable
from agentrt.reports.report import SpeculationReport
from agentrt.turns.session import SpeculationSession

from ..common.report import Table
from .scripted import (
    GENERATION_S,
    SCHEMA,
    TOOL_S,
    Script,
    ScriptedChat,
    async_client,
    client_of_repeated_ids,
)

METHOD = (
    f"Frameworks: {{turns}} turns of one call each on a scripted model ({1000 * GENERATION_S:g} ms a turn) "
    f"and a tool ({1000 * TOOL_S:g} ms) that counts its runs, with a predictor that is always right. "
    "double_runs is the sum over the frameworks of the runs of the tool beyond one for each call; "
    "claims_of_right_drafts is the share of right drafts that were claimed. A framework that is not "
    "installed has an empty row."
)
_STEPS: Any = {"recursion_limit": 1000}
_GO: Any = {"messages": [("user", "go")]}
Run = Callable[[Script], Coroutine[Any, Any, SpeculationReport]]


@dataclass(frozen=True, slots=True)
class FrameworkResult:
    """Counts of one framework."""

    calls: int
    runs: int
    right_drafts: int
    claims: int

    @classmethod
    def of(cls, script: Script, report: SpeculationReport) -> Self:
        """Return the counts of a script's run."""
        return cls(script.turns, len(script.runs), script.right_drafts, report.total.claims)

    @property
    def double_runs(self) -> int:
        """Runs of the tool beyond one for each call."""
        return self.runs - self.calls


def measure_frameworks(turns: int, progress: Callable[[str], None]) -> dict[str, FrameworkResult | None]:
    """Let an agent of every framework make ``turns`` calls; None stands for one that is not installed."""
    results: dict[str, FrameworkResult | None] = {}
    for name, (package, run) in FRAMEWORKS.items():
        progress(f"tool runs of {name}")
        results[name] = None
        if find_spec(package) is not None:
            script = Script(turns)
            results[name] = FrameworkResult.of(script, asyncio.run(run(script)))
    return results


def figures(results: Mapping[str, FrameworkResult | None]) -> dict[str, float]:
    """Figures over all frameworks that are installed."""
    measured = [each for each in results.values() if each is not None]
    right = sum(each.right_drafts for each in measured)
    return {
        "double_runs": float(sum(each.double_runs for each in measured)),
        "claims_of_right_drafts": sum(each.claims for each in measured) / right if right else 0.0,
    }


def table(results: Mapping[str, FrameworkResult | None]) -> Table:
    """One row a framework."""
    return Table(
        title="tool runs by framework",
        columns=("framework", "calls", "tool runs", "double runs", "right drafts", "claims"),
        rows=tuple(
            (f"{name} (not installed)", None, None, None, None, None)
            if each is None
            else (name, each.calls, each.runs, each.double_runs, each.right_drafts, each.claims)
            for name, each in results.items()
        ),
    )


def _own_node(make: Callable[[StructuredTool, list[Any]], list[Any]]) -> Run:
    """Return the run of a graph with a hand-written tool node: ``make`` maps tool and calls to results."""

    async def run(script: Script) -> SpeculationReport:
        from agentrt.adapters import langchain

        tool = speculable(StructuredTool.from_function(script.tool()))

        def tools(state: Any) -> dict[str, Any]:
            calls = state["messages"][-1].tool_calls
            results = zip(calls, make(tool, calls), strict=True)
            return {"messages": [ToolMessage(str(said), tool_call_id=call["id"]) for call, said in results]}

        model = langchain.speculate(ScriptedChat(script=script), script)
        await asyncio.to_thread(_graph(model.bind_tools([tool]), tools).invoke, _GO, _STEPS)
        return langchain.report_of(model)

    return run


async def _tool_node(script: Script) -> SpeculationReport:
    from agentrt.adapters import langchain

    tool = speculable(StructuredTool.from_function(coroutine=script.async_tool()))
    model = langchain.speculate(ScriptedChat(script=script), script)
    await _graph(model.bind_tools([tool]), ToolNode([tool])).ainvoke(_GO, _STEPS)
    return langchain.report_of(model)


async def _create_agent(script: Script) -> SpeculationReport:
    from agentrt.adapters import langchain

    tool = speculable(StructuredTool.from_function(coroutine=script.async_tool()))
    model = langchain.speculate(ScriptedChat(script=script), script)
    await create_agent(model, [tool]).ainvoke(_GO, _STEPS)
    return langchain.report_of(model)


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


# No extra of agentrt brings these two frameworks.
async def _openai_agents(script: Script) -> SpeculationReport:
    from agentrt.adapters import openai

    agents: Any = importlib.import_module("agents")
    look = script.async_tool()
    client = openai.speculate(async_client(script), [script], tools=[look])
    model = agents.OpenAIChatCompletionsModel("m", openai_client=client)
    agent = agents.Agent(name="agent", tools=[agents.function_tool(look)], model=model)
    config = agents.RunConfig(tracing_disabled=True)
    await agents.Runner.run(agent, "go", max_turns=script.turns + 1, run_config=config)
    return openai.report_of(client)


async def _pydantic_ai(script: Script) -> SpeculationReport:
    from agentrt.adapters import openai

    pydantic_ai: Any = importlib.import_module("pydantic_ai")
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    look = script.async_tool()
    client = openai.speculate(async_client(script), [script], tools=[look])
    provider = providers.OpenAIProvider(openai_client=client)
    agent = pydantic_ai.Agent(models.OpenAIChatModel("m", provider=provider))
    agent.tool_plain(look)
    await agent.run("go", usage_limits=pydantic_ai.UsageLimits(request_limit=None))
    return openai.report_of(client)


async def _repeated_ids(script: Script) -> SpeculationReport:
    from agentrt.adapters import openai

    client = openai.speculate(client_of_repeated_ids(script), [script], tools=[script.tool()])

    def loop() -> None:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            tools: Any = [SCHEMA]
            answer = client.chat.completions.create(model="m", messages=messages, tools=tools)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or ():
                said = openai.run_tool(client, call)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
            if not message.tool_calls:
                return

    await asyncio.to_thread(loop)
    return openai.report_of(client)


async def _session_without_ids(script: Script) -> SpeculationReport:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with SpeculationSession([script.async_tool()], [script]) as session:
        for made in range(script.turns):
            with session.turn(messages, [SCHEMA]) as turn:
                await asyncio.sleep(GENERATION_S)
                call = script.call(made)
                assert call is not None
                turn.bind([call])
            messages.append({"role": "assistant", "content": f"calls {call.name}"})
            messages.append({"role": "user", "content": await session.acall(call)})
        return session.report()


FRAMEWORKS: dict[str, tuple[str, Run]] = {
    "LangGraph, tool.invoke(args)": (
        "langgraph",
        _own_node(lambda tool, calls: [tool.invoke(call["args"]) for call in calls]),
    ),
    "LangGraph, tool.batch(args)": (
        "langgraph",
        _own_node(lambda tool, calls: tool.batch([call["args"] for call in calls])),
    ),
    "LangGraph, tool.func(**args)": (
        "langgraph",
        _own_node(lambda tool, calls: [tool.func(**call["args"]) for call in calls]),  # type: ignore[misc]
    ),
    "LangGraph, ToolNode": ("langgraph", _tool_node),
    "LangChain, create_agent": ("langchain", _create_agent),
    "openai-agents": ("agents", _openai_agents),
    "pydantic-ai": ("pydantic_ai", _pydantic_ai),
    "OpenAI client, repeated ids": ("openai", _repeated_ids),
    "session, calls without ids": ("agentrt", _session_without_ids),
}
"""The package that each framework needs, and its run."""
