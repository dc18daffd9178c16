"""The agent of :mod:`tests.adapters.agent_world` on the other adapters, and on packages for agents."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from typing import Any

from agentrt.calls import ToolCall
from agentrt.tools.speculable import speculable
from agentrt.turns.session import SpeculationSession
from tests.adapters.agent_world import SCHEMA, TURNS, CountedTool, Endpoint, Oracle, Outcome, ScriptedModel
from tests.adapters.mcp_servers import connected, server_of


def adapter_agents() -> dict[str, tuple[str, Callable[[], Outcome]]]:
    """Return the agents by name, each with the module that it needs."""
    return {
        "LangChain's MCP adapters": ("langchain_mcp_adapters.tools", langchain_mcp_adapters),
        "deepagents": ("deepagents", deep_agent),
        "langgraph-supervisor": ("langgraph_supervisor", supervisor),
        "openai-agents, speculating model": ("agents", openai_agents),
        "pydantic-ai, SpeculateTools": ("pydantic_ai", pydantic_ai),
        "smolagents": ("smolagents", smolagents),
        "OpenAI responses": ("openai", responses),
        "MCP client and session": ("mcp", mcp),
    }


def langchain_mcp_adapters() -> Outcome:
    """Run an agent of ``create_agent`` on tools that LangChain's MCP adapters have loaded."""
    from langchain.agents import create_agent

    from agentrt.adapters.langchain import speculable_mcp_tools

    load: Any = importlib.import_module("langchain_mcp_adapters.tools").load_mcp_tools
    counted = CountedTool()

    async def build(model: Any) -> Any:
        async with connected(server_of({counted.coroutine_function(): True})) as session:
            tools = speculable_mcp_tools(await load(session), trusted=True)
            return await _messages(create_agent(model, tools))

    outcome = _langchain(counted, build)
    texts = [json.loads(text.replace("'", '"'))[0]["text"] for text in outcome.results]  # blocks of content
    return Outcome(outcome.runs, texts, outcome.report)


def deep_agent() -> Outcome:
    """Run an agent of deepagents, whose own middleware wraps every tool call."""
    package: Any = importlib.import_module("deepagents")
    counted = CountedTool()
    look = speculable(before_approval=True)(_tool(counted))
    return _langchain(counted, lambda model: _messages(package.create_deep_agent(model=model, tools=[look])))


def supervisor() -> Outcome:
    """Run an agent under a supervisor of ``langgraph-supervisor``, which hands over to it and ends."""
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    package: Any = importlib.import_module("langgraph_supervisor")
    counted = CountedTool()
    handoff: Any = {"name": "transfer_to_worker", "args": {}, "id": "handoff"}

    class HandsOver(ScriptedModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatResult:
            done = any(message.type == "tool" for message in messages)
            message = AIMessage("done") if done else AIMessage("", tool_calls=[handoff])
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _agenerate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatResult:
            return self._generate(messages)

    def build(model: Any) -> Any:
        worker = create_agent(model, [speculable(_tool(counted))], name="worker")
        graph = package.create_supervisor(
            [worker], model=HandsOver(counted=counted), output_mode="full_history"
        )
        return _messages(graph.compile())

    return _langchain(counted, build)


def _tool(counted: CountedTool) -> Any:
    from langchain_core.tools import tool

    return tool(counted.coroutine_function())


async def _messages(app: Any) -> Any:
    return (await app.ainvoke({"messages": [("user", "hi")]}, {"recursion_limit": 1000}))["messages"]


def _langchain(counted: CountedTool, run: Callable[[Any], Any]) -> Outcome:
    """Run what ``run`` makes of a speculating model: a coroutine that returns the agent's messages."""
    from agentrt.adapters.langchain import report_of, speculate

    model = speculate(ScriptedModel(counted=counted), Oracle())

    async def main() -> Any:
        return await run(model)

    results = [
        message for message in asyncio.run(main()) if message.type == "tool" and message.name == "look"
    ]
    return Outcome(counted.runs, [str(message.content) for message in results], report_of(model))


def openai_agents() -> Outcome:
    """Run an agent of the OpenAI Agents SDK on a speculating model."""
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool

    from agentrt.adapters.openai_agents import report_of, speculate

    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=False)

    async def main() -> Outcome:
        plain = OpenAIChatCompletionsModel(model="m", openai_client=endpoint.async_client())
        model = speculate(plain, [Oracle()])
        agent = Agent(
            name="agent", tools=[speculable(function_tool(counted.coroutine_function()))], model=model
        )
        await Runner.run(agent, "hi", run_config=RunConfig(tracing_disabled=True))
        return Outcome(counted.runs, endpoint.results, report_of(model))

    return asyncio.run(main())


def pydantic_ai() -> Outcome:
    """Run an agent of pydantic-ai with the capability to speculate."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from agentrt.adapters.pydantic_ai import SpeculateTools

    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=True)

    async def main() -> Outcome:
        speculation = SpeculateTools([Oracle()], tools=["look"])
        provider = OpenAIProvider(openai_client=endpoint.async_client())
        agent = Agent(OpenAIChatModel("m", provider=provider), capabilities=[speculation])
        agent.tool_plain(counted.coroutine_function())
        await agent.run("hi")
        return Outcome(counted.runs, endpoint.results, speculation.report())

    return asyncio.run(main())


def smolagents() -> Outcome:
    """Run an agent of smolagents on a speculating client; its tools run in threads of its own."""
    from agentrt.adapters.openai import report_of, speculate

    package: Any = importlib.import_module("smolagents")
    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=True, final_tool="final_answer")
    look = speculable(counted.function())
    model = package.OpenAIModel("m", api_key="unused")
    model.client = speculate(endpoint.client(), [Oracle()], tools=[look])
    quiet = package.LogLevel.OFF
    agent = package.ToolCallingAgent(
        tools=[package.tool(look)], model=model, max_steps=TURNS, verbosity_level=quiet
    )
    agent.run("hi")
    seen = [getattr(step, "observations", None) for step in agent.memory.steps]
    return Outcome(counted.runs, [text for text in seen if text][: TURNS - 1], report_of(model.client))


def responses() -> Outcome:
    """Run an async loop on the Responses API."""
    from agentrt.adapters.openai import arun_tool, report_of, speculate

    counted = CountedTool()
    endpoint = Endpoint(counted, repeats_ids=False)
    tools: Any = [{"type": "function", **SCHEMA["function"]}]

    async def main() -> Outcome:
        look = speculable(counted.coroutine_function())
        client = speculate(endpoint.async_client(), [Oracle()], tools=[look])
        items: list[Any] = [{"role": "user", "content": "hi"}]
        while True:
            answer = await client.responses.create(model="m", input=items, tools=tools)
            calls = [item for item in answer.output if item.type == "function_call"]
            items += [item.model_dump(exclude_none=True) for item in answer.output]
            for call in calls:
                output = {"call_id": call.call_id, "output": await arun_tool(client, call)}
                items.append({"type": "function_call_output", **output})
            if not calls:
                return Outcome(counted.runs, endpoint.results, report_of(client))

    return asyncio.run(main())


def mcp() -> Outcome:
    """Run a loop on a session with the tool of an MCP server in this process."""
    from agentrt.adapters.mcp import speculable_tools

    counted = CountedTool()

    async def main() -> Outcome:
        results: list[str] = []
        messages: list[Any] = [{"role": "user", "content": "hi"}]
        async with connected(server_of({counted.coroutine_function(): True})) as client:
            tools = await speculable_tools(client, trusted=True)
            async with SpeculationSession(tools, [Oracle()]) as session:
                for number in range(TURNS - 1):
                    call = ToolCall("look", {"q": str(number)})
                    with session.turn(messages, [SCHEMA]) as turn:
                        await counted.until_asked(number)
                        turn.bind([call])
                    results.append((await session.acall(call)).content[0].text)
                    messages.append({"role": "assistant", "content": "calls look"})
                    messages.append({"role": "user", "content": results[-1]})
                return Outcome(counted.runs, results, session.report())

    return asyncio.run(main())
