"""One request of a LangGraph agent on a given model, plain and speculating, as a picture of two timelines.

``python -m agentrt.bench.speculation.one_run MODEL FOLDER`` writes the reports ``plain.json`` and
``speculating.json`` and the picture ``timeline.svg``, which the README shows. The graph searches the web,
reads the page found, looks up the weather, and answers; the tools are stand-ins that take a second. Each side
opens the model anew and is first asked about other cities, from which `PatternSpeculator` learns. The answer,
which offers no tools, is not in the reports.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agentrt import SpeculationConfig, speculable
from agentrt.reports import SpeculationReport

_TOOL_S: Final = 1.0
_EARLIER: Final = ("Lima", "Cairo", "Quito")
_CITY: Final = "Oslo"
_SYSTEM: Final = "Search for the city, read the page that is found, get the weather, then answer briefly."


async def run(model: str, mode: Literal["on", "off"], tool_s: float = _TOOL_S) -> SpeculationReport:
    """Return the report of one request."""
    from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
    from agentrt.runtime import LocalRuntime
    from agentrt.speculators import PatternSpeculator

    predictor = PatternSpeculator()
    with LocalRuntime.open(model) as runtime:
        chat = ChatAgentRT(runtime=runtime, max_tokens=100)
        for city, seconds in (*((city, 0.0) for city in _EARLIER), (_CITY, tool_s)):
            speculating = speculate(chat, predictor, config=SpeculationConfig(mode=mode))
            question = f"How many people live in {city}, and what is the weather there?"
            await _agent(speculating, seconds).ainvoke(
                {"messages": [("system", _SYSTEM), ("user", question)]}
            )
    return report_of(speculating)


def _agent(model: Any, tool_s: float) -> Any:
    @speculable
    @tool
    async def search_web(query: str) -> str:
        """Search the web. Returns addresses of pages."""
        await asyncio.sleep(tool_s)
        return json.dumps({"pages": [f"https://cities.example/{'-'.join(query.lower().split())}"]})

    @speculable
    @tool
    async def read_page(url: str) -> str:
        """Read a page of the web."""
        await asyncio.sleep(tool_s)
        return json.dumps(
            {"url": url, "text": "The city has 700,000 inhabitants, most of whom live by the sea."}
        )

    @speculable
    @tool
    async def get_weather(city: str) -> str:
        """Get the weather in a city."""
        await asyncio.sleep(tool_s)
        return json.dumps({"city": city, "temperature": 12, "sky": "light rain"})

    tools = [search_web, read_page, get_weather]

    def asking(choice: str) -> Any:
        bound = model.bind_tools(tools, tool_choice=choice)

        async def ask(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await bound.ainvoke(state["messages"])]}

        return ask

    graph = StateGraph(MessagesState)
    steps: list[tuple[str, Any]] = []
    for each in tools:
        steps += [(f"ask for {each.name}", asking(each.name)), (each.name, ToolNode([each]))]
    graph.add_sequence([*steps, ("answer", asking("none"))])
    graph.add_edge(START, steps[0][0])
    return graph.compile()


def main(arguments: Sequence[str]) -> None:
    """Run both sides on the model in the first argument, and write into the folder of the second."""
    parser = argparse.ArgumentParser(prog="python -m agentrt.bench.speculation.one_run")
    parser.add_argument("model", help="what LocalRuntime.open takes")
    parser.add_argument("folder", type=Path, help="where the reports and the picture are written")
    given = parser.parse_args(arguments)
    plain = asyncio.run(run(given.model, "off"))
    speculating = asyncio.run(run(given.model, "on"))
    plain.save(given.folder / "plain.json")
    speculating.save(given.folder / "speculating.json")
    drawn = plain.timeline("plain").above(speculating.timeline("speculating"))
    drawn.save(given.folder / "timeline.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
