"""A travel planner whose model requests are sent ahead: LangChain and turn-ahead.

    python examples/travel_planner.py
    python examples/travel_planner.py --model model.gguf Rome

Planning is a chain: search a guide, read what was found, answer. While the model writes one call, agentrt has
run the tool already and sent the next request with its result. The same requests are answered twice: by the
plain agent, and by the same agent with speculation.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated

from agentrt.examples.gallery import needs_extras

with needs_extras("cli", "langgraph", "runtime"):
    import typer
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool

    from agentrt import SpeculationConfig, speculable
    from agentrt.adapters.langchain import report_of, speculate
    from agentrt.config import TurnAhead
    from agentrt.examples.assistant.paced import chat_model
    from agentrt.examples.gallery.script import Model, run_script
    from agentrt.runtime.nano import DRAFT_DIRECTORY
    from agentrt.speculators import LocalSpeculator, PatternSpeculator

GUIDES = {
    "g1": ("Lisbon in three days", "Take tram 28 and see the Alfama quarter on foot."),
    "g2": ("Bergen in the rain", "Walk to the fish market and take the cable car."),
    "g3": ("Rome for beginners", "See the Forum early in the morning."),
}


# 1. Tools that only read, so that they may run before the model has made the call. Each takes 0.1 seconds, as
# a web service may.


@speculable
@tool
async def search_guides(query: str) -> str:
    """Search the guides."""
    await asyncio.sleep(0.1)
    found = [
        {"id": id, "title": title}
        for id, (title, _) in GUIDES.items()
        if any(word in title.lower() for word in query.lower().split())
    ]
    return json.dumps(found)


@speculable
@tool
async def read_guide(id: str) -> str:
    """Read a guide."""
    await asyncio.sleep(0.1)
    title, text = GUIDES.get(id, ("", "there is no such guide"))
    return json.dumps({"title": title, "text": text})


@speculable
@tool
async def get_weather(city: str) -> str:
    """Get the weather in a city."""
    await asyncio.sleep(0.1)
    return json.dumps({"temperature": 10 + len(city), "sky": "clear"})


# 2. The agent is LangChain's, with whichever model it gets.


async def plan(model: BaseChatModel, cities: list[str]) -> tuple[list[str], float]:
    """Return the answers about ``cities`` and the seconds that they took."""
    agent = create_agent(model, [search_guides, read_guide, get_weather])
    began, answers = time.monotonic(), []
    for question in [
        f"What is the weather in {' and '.join(cities)}?",
        *(f"What do my guides say about {city}?" for city in cities),
    ]:
        state = await agent.ainvoke({"messages": [HumanMessage(question)]})
        answers.append(f"> {question}\n{state['messages'][-1].text}")
    return answers, time.monotonic() - began


# 3. Speculation: a small model and the agent's own history predict the calls, and at most two requests are
# sent ahead of their turn.


def main(cities: Annotated[list[str] | None, typer.Argument()] = None, model: Model = "nano") -> None:
    """Plan a journey to CITIES, by default Lisbon and Bergen."""
    plain = chat_model(model)
    learner = PatternSpeculator(max_drafts=1, min_probability=0.5)  # drafts only what it is rather sure of
    drafts = LocalSpeculator(DRAFT_DIRECTORY, threads=1, shares_cores=False)
    config = SpeculationConfig(turn_ahead=TurnAhead(depth=2))
    faster = speculate(plain, [learner, drafts], config=config)

    wanted = cities or ["Lisbon", "Bergen"]
    answers, plain_s = asyncio.run(plan(plain, wanted))
    same, faster_s = asyncio.run(plan(faster, wanted))
    print(*answers, sep="\n")
    print(f"\n{plain_s:.1f} s without agentrt, {faster_s:.1f} s with it;", end=" ")
    print("the answers are equal." if same == answers else "the answers differ.")
    print(report_of(faster))


if __name__ == "__main__":
    run_script(main)
