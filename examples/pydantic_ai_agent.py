"""An agent of pydantic-ai on a local model, with speculative tool calls.

    python examples/pydantic_ai_agent.py
    python examples/pydantic_ai_agent.py --model model.gguf "What is the exchange rate of the yen?"

The agent, its tools and its dependencies are pydantic-ai's. agentrt is one capability that names the tools
which only read. The model is served on this machine by `agentrt serve`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from agentrt.examples.gallery import needs_extras

with needs_extras("openai", "pydantic-ai", "serve"):
    import typer
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from agentrt.adapters.pydantic_ai import SpeculateTools
    from agentrt.examples.gallery.client import openai_client
    from agentrt.examples.gallery.script import Model, run_script, running
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator

QUESTIONS = [
    "What is the exchange rate of the yen?",
    "What is the balance of account savings?",
    "What is the exchange rate of the peso?",
]


# 1. What the tools of one run need: pydantic-ai's dependencies. Speculations get the same.


@dataclass
class Bank:
    """The user's accounts, and the rates of the day."""

    balances: dict[str, str]
    rates: dict[str, float]


# 2. Tools. Each takes 0.2 seconds, as a bank's service may.


async def exchange_rate(context: RunContext[Bank], currency: str) -> dict[str, object]:
    """Get the exchange rate of a currency."""
    await asyncio.sleep(0.2)
    return {"currency": currency, "euro": context.deps.rates.get(currency, "unknown")}


async def get_balance(context: RunContext[Bank], account: str) -> dict[str, object]:
    """Get the balance of an account."""
    await asyncio.sleep(0.2)
    return {"balance": context.deps.balances.get(account, "unknown")}


# 3. The agent, with the capability that speculates on both tools.


async def answer(questions: list[str], client: AsyncOpenAI) -> None:
    """Answer ``questions`` by the model behind ``client``; print the answers and what was saved."""
    drafts = LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False)
    speculation = SpeculateTools(drafts, tools=["exchange_rate", "get_balance"])
    agent = Agent(
        OpenAIChatModel("local", provider=OpenAIProvider(openai_client=client)),
        deps_type=Bank,
        tools=[exchange_rate, get_balance],
        capabilities=[speculation],
    )
    bank = Bank(balances={"savings": "310 EUR"}, rates={"yen": 0.0061, "peso": 0.046})
    for question in questions:
        result = await agent.run(question, deps=bank)
        print(f"> {question}\n{result.output}")
    print(f"\n{speculation.report()}")


# 4. The server and the questions.


def main(questions: Annotated[list[str] | None, typer.Argument()] = None, model: Model = "nano") -> None:
    """Answer QUESTIONS about money, with an agent of pydantic-ai."""
    with running("serve", "--model", model, "--served-model-name", "local") as url:
        asyncio.run(answer(questions or QUESTIONS, openai_client(url, model)))


if __name__ == "__main__":
    run_script(main)
