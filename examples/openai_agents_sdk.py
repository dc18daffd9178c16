"""The OpenAI Agents SDK on a local model, with speculative tool calls.

    python examples/openai_agents_sdk.py
    python examples/openai_agents_sdk.py --model model.gguf "Where is the order A-17?"

The agent, its tools and its runner are the SDK's. agentrt adds @speculable above the tools that only read,
and one line around the model. The model is served on this machine by `agentrt serve`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from agentrt.examples.gallery import needs_extras

with needs_extras("openai-agents", "serve"):
    import typer
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    from agentrt import speculable
    from agentrt.adapters.openai_agents import report_of, speculate
    from agentrt.examples.gallery.client import openai_client
    from agentrt.examples.gallery.script import Model, run_script, running
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator

QUESTIONS = ["Find the last order of Ann Miller", "Where is the order A-17?", "Cancel the order A-17"]


# 1. Tools. Two look something up and may run before the model has made the call; cancelling may not.


@speculable
@function_tool
async def find_order(customer: str) -> str:
    """Find the last order of a customer."""
    await asyncio.sleep(0.2)
    return json.dumps({"number": "A-17", "item": "oak table"})


@speculable
@function_tool
async def track_order(number: str) -> str:
    """Track an order by its number."""
    await asyncio.sleep(0.2)
    return json.dumps({"place": "Rotterdam", "due": "Friday"})


@function_tool
async def cancel_order(number: str) -> str:
    """Cancel an order by its number."""
    return json.dumps({"cancelled": number})


# 2. The agent, with the line that makes its model speculate.


async def answer(questions: list[str], client: AsyncOpenAI) -> None:
    """Answer ``questions`` by the model behind ``client``; print the answers and what was saved."""
    plain = OpenAIChatCompletionsModel("local", client)
    model = speculate(plain, LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False))
    agent = Agent(name="shop", model=model, tools=[find_order, track_order, cancel_order])
    for question in questions:
        # Traces would be sent to OpenAI.
        result = await Runner.run(agent, question, run_config=RunConfig(tracing_disabled=True))
        print(f"> {question}\n{result.final_output}")
    print(f"\n{report_of(model)}")


# 3. The server and the questions.


def main(questions: Annotated[list[str] | None, typer.Argument()] = None, model: Model = "nano") -> None:
    """Answer QUESTIONS about orders, with an agent of the OpenAI Agents SDK."""
    with running("serve", "--model", model, "--served-model-name", "local") as url:
        asyncio.run(answer(questions or QUESTIONS, openai_client(url, model)))


if __name__ == "__main__":
    run_script(main)
