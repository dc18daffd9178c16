"""Agents on the OpenAI client that run by a script."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from typing import Any

from agentrt.reports.report import SpeculationReport

from .scripted import SCHEMA, Script, async_client, client_of_repeated_ids


def _speculating(client: Any, script: Script, look: Callable[..., Any]) -> Any:
    from agentrt.adapters import openai

    return openai.speculate(client, [script], tools=[look]) if script.speculative else client


def _report_of(client: Any, script: Script) -> SpeculationReport | None:
    from agentrt.adapters import openai

    return openai.report_of(client) if script.speculative else None


async def chat_completions(script: Script) -> SpeculationReport | None:
    """Run a sync loop on chat completions of an endpoint that gives each call the same id."""
    from agentrt.adapters import openai

    look = script.declared(script.function())
    client = _speculating(client_of_repeated_ids(script), script, look)

    def loop() -> None:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            answer = client.chat.completions.create(model="m", messages=messages, tools=[SCHEMA])
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or ():
                arguments = json.loads(call.function.arguments)
                said = openai.run_tool(client, call) if script.speculative else look(**arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
            if not message.tool_calls:
                return

    await asyncio.to_thread(loop)
    return _report_of(client, script)


async def responses(script: Script) -> SpeculationReport | None:
    """Run an async loop on the Responses API."""
    from agentrt.adapters import openai

    look = script.declared(script.coroutine_function())
    client = _speculating(async_client(script), script, look)
    tools: Any = [{"type": "function", **SCHEMA["function"]}]  # type: ignore[dict-item]
    items: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        answer = await client.responses.create(model="m", input=items, tools=tools)
        calls = [item for item in answer.output if item.type == "function_call"]
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        for call in calls:
            arguments = json.loads(call.arguments)
            said = await (openai.arun_tool(client, call) if script.speculative else look(**arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": said})
        if not calls:
            return _report_of(client, script)


async def openai_agents(script: Script) -> SpeculationReport | None:
    """Run an agent of the OpenAI Agents SDK on a speculating model."""
    from agentrt.adapters import openai_agents as adapter

    agents: Any = importlib.import_module("agents")
    model = agents.OpenAIChatCompletionsModel("m", openai_client=async_client(script))
    if script.speculative:
        model = adapter.speculate(model, [script])
    tool = script.declared(agents.function_tool(script.coroutine_function()))
    agent = agents.Agent(name="agent", tools=[tool], model=model)
    config = agents.RunConfig(tracing_disabled=True)
    await agents.Runner.run(agent, "go", max_turns=script.turns + 1, run_config=config)
    return adapter.report_of(model) if script.speculative else None


async def pydantic_ai(script: Script) -> SpeculationReport | None:
    """Run an agent of pydantic-ai with the capability to speculate."""
    from agentrt.adapters.pydantic_ai import SpeculateTools

    package: Any = importlib.import_module("pydantic_ai")
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    model = models.OpenAIChatModel("m", provider=providers.OpenAIProvider(openai_client=async_client(script)))
    speculation = SpeculateTools([script], tools=["look"]) if script.speculative else None
    agent = package.Agent(model, capabilities=[] if speculation is None else [speculation])
    agent.tool_plain(script.coroutine_function())
    await agent.run("go", usage_limits=package.UsageLimits(request_limit=None))
    return None if speculation is None else speculation.report()


async def openai_agents_on_client(script: Script) -> SpeculationReport | None:
    """Run an agent of the OpenAI Agents SDK on a speculating client."""
    agents: Any = importlib.import_module("agents")
    look = script.declared(script.coroutine_function())
    client = _speculating(async_client(script), script, look)
    model = agents.OpenAIChatCompletionsModel("m", openai_client=client)
    agent = agents.Agent(name="agent", tools=[agents.function_tool(look)], model=model)
    config = agents.RunConfig(tracing_disabled=True)
    await agents.Runner.run(agent, "go", max_turns=script.turns + 1, run_config=config)
    return _report_of(client, script)


async def pydantic_ai_on_client(script: Script) -> SpeculationReport | None:
    """Run an agent of pydantic-ai on a speculating client."""
    package: Any = importlib.import_module("pydantic_ai")
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    look = script.declared(script.coroutine_function())
    client = _speculating(async_client(script), script, look)
    provider = providers.OpenAIProvider(openai_client=client)
    agent = package.Agent(models.OpenAIChatModel("m", provider=provider))
    agent.tool_plain(look)
    await agent.run("go", usage_limits=package.UsageLimits(request_limit=None))
    return _report_of(client, script)


async def smolagents(script: Script) -> SpeculationReport | None:
    """Run an agent of smolagents on a speculating client; its tools run in threads of its own."""
    package: Any = importlib.import_module("smolagents")
    look = script.declared(script.function())
    client = _speculating(client_of_repeated_ids(script, final_tool="final_answer"), script, look)
    model = package.OpenAIModel("m", api_key="unused")
    model.client = client
    quiet = package.LogLevel.OFF
    tool = package.tool(look)
    agent = package.ToolCallingAgent(
        tools=[tool], model=model, max_steps=script.turns + 1, verbosity_level=quiet
    )
    await asyncio.to_thread(agent.run, "go")
    return _report_of(client, script)
