"""The agent of :mod:`tests.adapters.agent_world` in every framework.

They differ in who calls the tool, with or without the call's id, and from which thread.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from agentrt.adapters import anthropic as anthropic_adapter
from agentrt.adapters import langchain
from agentrt.adapters.openai import report_of, run_tool, speculate
from agentrt.calls import ToolCall
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession
from tests.adapters.agent_world import (
    SCHEMA,
    TURNS,
    CountedTool,
    Endpoint,
    Oracle,
    Outcome,
    Run,
    ScriptedModel,
)
from tests.adapters.anthropic.doubles import Endpoint as AnthropicEndpoint
from tests.adapters.anthropic.doubles import sync_results
from tests.adapters.langchain.graphs import INPUT, agent, hand_built
from tests.adapters.stainless.doubles import HI, Script


def session_agent(call_id: str | None) -> Outcome:
    """Run a session whose calls all have this id, or none."""
    counted = CountedTool()

    async def main() -> Outcome:
        look = speculable(counted.coroutine_function())
        results: list[str] = []
        async with SpeculationSession([look], [Oracle()]) as session:
            messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
            for number in range(TURNS - 1):
                call = ToolCall("look", {"q": str(number)}, call_id)
                with session.turn(messages, []) as turn:
                    await counted.until_asked(number)
                    turn.bind([call])
                results.append(await session.acall(call))
                messages.append({"role": "assistant", "content": ""})
                messages.append({"role": "tool", "tool_call_id": call_id, "content": results[-1]})
            return Outcome(counted.runs, results, session.report())

    return asyncio.run(main())


# LangChain and LangGraph.

CallTool = Callable[[Any, dict[str, Any]], Any]
"""Makes one call of the model by a LangChain tool, as an agent's own code does; returns the result."""

CALLS: dict[str, CallTool] = {
    "tool.invoke(args)": lambda tool, call: tool.invoke(call["args"]),
    "tool.invoke(call)": lambda tool, call: tool.invoke({**call, "type": "tool_call"}).content,
    "tool.func(**args)": lambda tool, call: tool.func(**call["args"]),
    "tool.batch([args])": lambda tool, call: tool.batch([call["args"]])[0],
}
ASYNC_CALLS: dict[str, CallTool] = {
    "tool.ainvoke(args)": lambda tool, call: tool.ainvoke(call["args"]),
    "tool.coroutine(**args)": lambda tool, call: tool.coroutine(**call["args"]),
    "tool.abatch([args])": lambda tool, call: _first(tool.abatch([call["args"]])),
}
Build = Callable[[Any, Any], Any]
"""Returns what invokes a model with a tool, as a graph does."""


async def _first(results: Any) -> Any:
    return (await results)[0]


def langchain_agent(build: Build, *, is_async: bool) -> Outcome:
    """Run the agent that ``build(model, tool)`` returns."""
    counted = CountedTool()
    model = langchain.speculate(ScriptedModel(counted=counted), Oracle())
    look = speculable(tool(counted.coroutine_function() if is_async else counted.function()))
    app = build(model, look)
    messages = (asyncio.run(app.ainvoke(INPUT)) if is_async else app.invoke(INPUT))["messages"]
    results = [str(message.content) for message in messages if message.type == "tool"]
    return Outcome(counted.runs, results, langchain.report_of(model))


def _calling(call_tool: CallTool, look: Any) -> RunnableLambda[Any, Any]:
    """Return a tool node of the user's."""

    def call(state: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage(call_tool(look, each), tool_call_id=each["id"]) for each in calls]}

    async def acall(state: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        results = [await call_tool(look, each) for each in calls]
        pairs = zip(results, calls, strict=True)
        return {"messages": [ToolMessage(result, tool_call_id=each["id"]) for result, each in pairs]}

    return RunnableLambda(call, afunc=acall)


def loop(call_tool: CallTool) -> Build:
    """Return the builder of a loop without a graph."""

    def build(model: Any, look: Any) -> Any:
        bound, tools = model.bind_tools([look]), _calling(call_tool, look)

        def drive(_: Any) -> Any:
            messages: list[Any] = [HumanMessage("hi"), bound.invoke([HumanMessage("hi")])]
            while messages[-1].tool_calls:
                messages += tools.func({"messages": messages})["messages"]
                messages.append(bound.invoke(messages))
            return {"messages": messages}

        async def adrive(_: Any) -> Any:
            messages: list[Any] = [HumanMessage("hi"), await bound.ainvoke([HumanMessage("hi")])]
            while messages[-1].tool_calls:
                messages += (await tools.afunc({"messages": messages}))["messages"]
                messages.append(await bound.ainvoke(messages))
            return {"messages": messages}

        return Loop(drive, adrive)

    return build


class Loop:
    """A loop that is driven as a graph is."""

    def __init__(self, invoke: Callable[..., Any], ainvoke: Callable[..., Any]) -> None:
        self.invoke, self.ainvoke = invoke, ainvoke


def from_scratch(call_tool: CallTool) -> Build:
    """Return the builder of LangGraph's own "from scratch" graph, with a tool node of the user's."""
    return lambda model, look: hand_built(model, [look], node=_calling(call_tool, look))


def langchain_agents() -> dict[str, Run]:
    """Return the agents on LangChain and LangGraph, by name."""
    builders: dict[str, tuple[Build, bool]] = {}
    for calls, is_async in ((CALLS, False), (ASYNC_CALLS, True)):
        for how, call_tool in calls.items():
            builders[f"LangChain loop, {how}"] = loop(call_tool), is_async
            builders[f"LangGraph from scratch, {how}"] = from_scratch(call_tool), is_async
    for name, build in (("LangGraph, ToolNode", hand_built), ("create_agent", agent)):
        for is_async in (False, True):
            made: Build = lambda model, look, build=build: build(model, [look])  # noqa: E731
            builders[name + ", async" * is_async] = made, is_async
    return {
        name: functools.partial(langchain_agent, build, is_async=is_async)
        for name, (build, is_async) in builders.items()
    }


# The OpenAI client, and frameworks on it.


def openai_agent(*, direct: bool) -> Outcome:
    """Run a loop on the OpenAI client; ``direct``: it calls the function and not ``run_tool``."""
    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=True)
    look = speculable(counted.function())
    client = speculate(endpoint.client(), Oracle(), tools=[look])
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    while True:
        answer: Any = client.chat.completions.create(model="m", messages=messages, tools=[SCHEMA])
        message = answer.choices[0].message
        if not message.tool_calls:
            return Outcome(counted.runs, endpoint.results, report_of(client))
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = look(**json.loads(call.function.arguments)) if direct else run_tool(client, call)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def anthropic_agent(*, by_runner: bool) -> Outcome:
    """Run a loop on the Anthropic client; ``by_runner``: the client's own tool runner."""
    from anthropic import beta_tool

    counted = CountedTool()
    look = speculable(counted.function())
    script: Script = [[("look", {"q": str(turn)})] for turn in range(TURNS - 1)]
    endpoint = AnthropicEndpoint(script, gate=counted.wait_until_asked, holds_threads=True)
    with endpoint.client() as plain:
        client = anthropic_adapter.speculate(plain, Oracle(), tools=[look])
        if by_runner:
            asked: Any = {"model": "m", "max_tokens": 64, "messages": [HI], "tools": [beta_tool(look)]}
            client.beta.messages.tool_runner(**asked).until_done()
        else:
            sync_results(client, False, TURNS)
        sent = [message for body in endpoint.requests for message in body["messages"]]
        blocks = [message["content"][0] for message in sent if message["role"] == "user" and message != HI]
        results = list(dict.fromkeys(block["content"] for block in blocks))
        return Outcome(counted.runs, results, anthropic_adapter.report_of(client))


FrameworkRun = Callable[[Any, Any], Coroutine[Any, Any, Any]]


def framework_agent(run: FrameworkRun, *, is_async: bool, repeats_ids: bool) -> Outcome:
    """Run an agent of a framework on the async OpenAI client: ``run(client, function)`` drives it."""
    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=repeats_ids)
    look: Any = speculable(counted.coroutine_function() if is_async else counted.function())

    async def main() -> Outcome:
        client = speculate(endpoint.async_client(), Oracle(), tools=[look])
        await run(client, look)
        return Outcome(counted.runs, endpoint.results, report_of(client))

    return asyncio.run(main())


async def openai_agents(client: Any, function: Any, *, streamed: bool) -> None:
    """Run an agent of the OpenAI Agents SDK; tracing, which would send it to OpenAI, is off."""
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool

    model = OpenAIChatCompletionsModel(model="m", openai_client=client)
    asked = Agent(name="agent", instructions="Use it.", tools=[function_tool(function)], model=model)
    config = RunConfig(tracing_disabled=True)
    if not streamed:
        await Runner.run(asked, "hi", run_config=config)
        return
    async for _ in Runner.run_streamed(asked, "hi", run_config=config).stream_events():
        pass


async def pydantic_ai(client: Any, function: Any, *, streamed: bool) -> None:
    """Run an agent of pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    asked = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))
    asked.tool_plain(function)
    if not streamed:
        await asked.run("hi")
        return
    async with asked.run_stream("hi") as answer:
        await answer.get_output()


def own_agents() -> dict[str, Run]:
    """Return the agents that need no framework but LangChain's, by name."""
    return {
        "session, without ids": lambda: session_agent(None),
        "session, repeated ids": lambda: session_agent("call_0"),
        **langchain_agents(),
        "OpenAI loop, repeated ids": lambda: openai_agent(direct=False),
        "OpenAI loop, calls of the function": lambda: openai_agent(direct=True),
        "Anthropic loop": lambda: anthropic_agent(by_runner=False),
        "Anthropic tool runner": lambda: anthropic_agent(by_runner=True),
    }


def framework_agents() -> dict[str, tuple[str, Run]]:
    """Return the agents of frameworks on the OpenAI client, by name, each with the module it needs."""
    agents: dict[str, tuple[str, Run]] = {}
    for name, module, run in (
        ("openai-agents", "agents", openai_agents),
        ("pydantic-ai", "pydantic_ai", pydantic_ai),
    ):
        for streamed in (False, True):
            for is_async in (True, False):
                driven = functools.partial(run, streamed=streamed)
                # openai-agents refuses an id that it has seen before.
                repeats = {"repeats_ids": run is pydantic_ai, "is_async": is_async}
                how = f"{', streamed' * streamed}, {'async' if is_async else 'sync'} function"
                agents[name + how] = module, functools.partial(framework_agent, driven, **repeats)
    return agents
