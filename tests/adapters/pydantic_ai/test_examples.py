"""Agents of the kinds that pydantic-ai's users write: the same run with and without speculation."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
)
from pydantic_ai.messages import ModelMessage

from agentrt.adapters.pydantic_ai import SpeculateTools
from tests.adapters.pydantic_ai.doubles import Answer, Oracle, Script, settled, transcript

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]


class Outcome(NamedTuple):
    """The end of a conversation, and all of it."""

    output: Any
    messages: Sequence[ModelMessage]
    usage: Any


class Example(NamedTuple):
    """An agent's answers, the agent itself, and how many calls of its tools ``tools`` claim."""

    answers: Sequence[Answer]
    drive: Callable[[Any, Sequence[Any]], Coroutine[Any, Any, Outcome]]
    tools: Sequence[str]
    claims: int


# Weather: two places at once, then what the weather is there.


class Place(BaseModel):
    lat: float
    lng: float


@dataclass
class Services:
    """Dependencies of the weather agent."""

    places: dict[str, Place]


async def weather(model: Any, capabilities: Sequence[Any]) -> Outcome:
    agent = Agent(
        model,
        deps_type=Services,
        instructions="Be concise: one sentence.",
        retries=2,
        capabilities=capabilities,
    )

    @agent.tool
    async def locate(ctx: RunContext[Services], name: str) -> Place:
        """Find a place by its name."""
        return ctx.deps.places[name]

    @agent.tool
    async def forecast(ctx: RunContext[Services], lat: float, lng: float) -> dict[str, Any]:
        """Return the weather at a place."""
        return {"temperature": f"{round(lat - lng)} °C", "sky": "sunny"}

    services = Services({"Leeds": Place(lat=53.8, lng=-1.5), "Kyoto": Place(lat=35.0, lng=135.8)})
    result = await agent.run("What is the weather like in Leeds and in Kyoto?", deps=services)
    return Outcome(result.output, result.all_messages(), result.usage)


# Support of a bank: instructions and a balance of the customer, and a structured answer.


class Advice(BaseModel):
    text: str
    block_card: bool
    risk: int


class Bank:
    """A database of one customer."""

    async def balance(self, customer: int, *, pending: bool) -> float:
        return 123.45 if pending else 100.0


@dataclass
class Customer:
    number: int
    bank: Bank = field(default_factory=Bank)


async def bank_support(model: Any, capabilities: Sequence[Any]) -> Outcome:
    agent = Agent(
        model,
        deps_type=Customer,
        output_type=Advice,
        instructions="You are the support of a bank.",
        capabilities=capabilities,
    )

    @agent.instructions
    async def name(ctx: RunContext[Customer]) -> str:
        return f"The customer has the number {ctx.deps.number}."

    @agent.tool
    async def balance(ctx: RunContext[Customer], include_pending: bool = False) -> str:
        """Return the balance of the account."""
        return f"£{await ctx.deps.bank.balance(ctx.deps.number, pending=include_pending):.2f}"

    result = await agent.run("I lost my card! What is left?", deps=Customer(7))
    return Outcome(result.output, result.all_messages(), result.usage)


# SQL: a query that the database has to understand, else the model writes another.


class Query(BaseModel):
    sql: str


async def sql_generation(model: Any, capabilities: Sequence[Any]) -> Outcome:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE records (level TEXT, message TEXT)")
        agent = Agent(model, output_type=Query, retries=2, capabilities=capabilities)

        @agent.tool_plain
        async def columns(table: str) -> list[str]:
            """List the columns of a table."""
            return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]

        @agent.output_validator
        async def explained(query: Query) -> Query:
            try:
                database.execute(f"EXPLAIN {query.sql}")
            except sqlite3.Error as error:
                raise ModelRetry(f"the database says: {error}") from error
            return query

        result = await agent.run("Show me the errors.")
        return Outcome(result.output, result.all_messages(), result.usage)


# Flights: one agent searches, by a tool that asks another agent to read the web page.


class Flight(BaseModel):
    number: str
    price: int


async def flights(model: Any, capabilities: Sequence[Any]) -> Outcome:
    reading = Script([("final_result", {"response": [{"number": "BA1", "price": 200}]})])
    reader = Agent(reading.model(), output_type=list[Flight], instructions="Extract the flights.")
    agent = Agent(model, deps_type=str, output_type=Flight, retries=2, capabilities=capabilities)

    @agent.tool
    async def extract_flights(ctx: RunContext[str]) -> list[Flight]:
        """Read the flights off the page."""
        result = await reader.run(ctx.deps, usage=ctx.usage)
        return result.output

    @agent.output_validator
    async def cheap(ctx: RunContext[str], flight: Flight) -> Flight:
        if flight.price > 250:
            raise ModelRetry("there is a cheaper one")
        return flight

    result = await agent.run("Find me a flight from London to Anchorage", deps="BA1 costs £200.")
    return Outcome(result.output, result.all_messages(), result.usage)


# Whales: a table that is shown while it is still being written.


class Whale(BaseModel):
    name: str
    length: float


async def whales(model: Any, capabilities: Sequence[Any]) -> Outcome:
    agent = Agent(model, output_type=list[Whale], capabilities=capabilities)

    @agent.tool_plain
    async def measure(name: str) -> float:
        """Return the length of a whale in metres."""
        return float(len(name))

    shown = []
    async with agent.run_stream("Give me the details of two species of whale.") as streamed:
        async for table in streamed.stream_output(debounce_by=None):
            shown.append(len(table))
        assert shown[-1] == 2
        return Outcome(await streamed.get_output(), streamed.all_messages(), streamed.usage)


# Markdown: a text that is streamed after a search.


async def markdown(model: Any, capabilities: Sequence[Any]) -> Outcome:
    agent = Agent(model, capabilities=capabilities)

    @agent.tool_plain
    def search(words: str) -> str:
        """Search the manual."""
        return f"the manual on {words}"

    pieces = []
    async with agent.run_stream("Show me a short example of an agent.") as streamed:
        async for piece in streamed.stream_text(delta=True, debounce_by=None):
            pieces.append(piece)
        assert len(pieces) > 1
        return Outcome("".join(pieces), streamed.all_messages(), streamed.usage)


# Approvals: files that may be read, and those of which a person decides.


async def approvals(model: Any, capabilities: Sequence[Any]) -> Outcome:
    agent = Agent(model, output_type=[str, DeferredToolRequests], capabilities=capabilities)
    files = {"README.md": "Hello", ".env": "SECRET=1"}

    @agent.tool_plain
    async def read_file(path: str) -> str:
        """Read a file."""
        return files[path]

    @agent.tool
    async def update_file(ctx: RunContext[None], path: str, content: str) -> str:
        """Write a file."""
        if path.startswith(".") and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": "protected"})
        files[path] = content
        return f"{path} updated"

    @agent.tool_plain(requires_approval=True)
    async def delete_file(path: str) -> str:
        """Delete a file."""
        del files[path]
        return f"{path} deleted"

    first = await agent.run("Read README.md, clear .env and delete README.md")
    assert isinstance(first.output, DeferredToolRequests)
    assert files == {"README.md": "Hello", ".env": "SECRET=1"}
    decisions = {call.tool_call_id: call.tool_name == "update_file" for call in first.output.approvals}
    second = await agent.run(
        message_history=first.all_messages(), deferred_tool_results=DeferredToolResults(approvals=decisions)
    )
    assert files == {"README.md": "Hello", ".env": ""}
    return Outcome(second.output, second.all_messages(), second.usage)


LEEDS, KYOTO = {"lat": 53.8, "lng": -1.5}, {"lat": 35.0, "lng": 135.8}
BOTH = {"response": [{"name": "blue", "length": 30}, {"name": "sei", "length": 20}]}
EXAMPLES = {
    "weather": Example(
        (
            [("locate", {"name": "Leeds"}), ("locate", {"name": "Kyoto"})],
            [("forecast", LEEDS), ("forecast", KYOTO)],
            "Sunny in both.",
        ),
        weather,
        ["locate", "forecast"],
        4,
    ),
    "bank support": Example(
        (
            [("balance", {"include_pending": True})],
            [("final_result", {"text": "Blocked.", "block_card": True, "risk": 8})],
        ),
        bank_support,
        ["balance"],
        1,
    ),
    "SQL generation": Example(
        (
            [("columns", {"table": "records"})],
            [("final_result", {"sql": "SELECT * FROM record"})],
            [("final_result", {"sql": "SELECT * FROM records WHERE level = 'error'"})],
        ),
        sql_generation,
        ["columns"],
        1,
    ),
    "flights": Example(
        ([("extract_flights", {})], [("final_result", {"number": "BA1", "price": 200})]),
        flights,
        ["extract_flights"],
        1,
    ),
    "whales": Example(
        ([("measure", {"name": "blue"}), ("measure", {"name": "sei"})], [("final_result", BOTH)]),
        whales,
        ["measure"],
        2,
    ),
    "markdown": Example(
        ([("search", {"words": "agents"})], "# Agents are *easy* to write"), markdown, ["search"], 1
    ),
    "approvals": Example(
        (
            [
                ("read_file", {"path": "README.md"}),
                ("update_file", {"path": ".env", "content": ""}),
                ("delete_file", {"path": "README.md"}),
            ],
            "Cleared .env; README.md is still there.",
        ),
        approvals,
        ["read_file", "update_file", "delete_file"],
        1,
    ),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
async def test_the_transcript_is_the_same_with_speculation(example: Example) -> None:
    plain = await example.drive(Script(*example.answers).model(), [])

    script = Script(*example.answers)
    oracle = Oracle(script)

    async def until_decided(turn: int) -> None:
        await oracle.decided(turn)
        await settled()

    script.before = until_decided
    speculation = SpeculateTools[Any](oracle, tools=example.tools)
    speculated = await example.drive(script.model(), [speculation])

    assert speculated.output == plain.output
    assert transcript(speculated.messages) == transcript(plain.messages)
    assert speculated.usage == plain.usage
    assert speculation.report().total.claims == example.claims, str(speculation.report())
