"""The patterns of the Agents SDK's examples, with the transcripts that they have without speculation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs the extra openai-agents")

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    ItemHelpers,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolExecutionConfig,
    function_tool,
    handoff,
    input_guardrail,
    trace,
)
from pydantic import BaseModel

from agentrt import ToolCall, speculable
from agentrt.adapters.openai_agents import report_of, speculate
from tests.adapters.openai_agents.doubles import (
    SILENT,
    STREAMED,
    ByUser,
    Drafts,
    Provider,
    Runs,
    Trial,
    after,
    calling,
    compared,
    model,
    outputs,
    run,
    saying,
    transcript,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("prediction_is_free")]


class Weather(BaseModel):
    city: str
    degrees: int


class Advice(BaseModel):
    umbrella: bool


class Homework(BaseModel):
    is_homework: bool


def weather(city: str) -> ToolCall:
    return ToolCall("get_weather", {"city": city})


def faq(question: str) -> ToolCall:
    return ToolCall("look_up_faq", {"question": question})


@STREAMED
def test_a_model_with_a_typed_result(streamed: bool) -> None:
    """A tool that returns a model, and an answer that has to have a type."""

    async def main(trial: Trial) -> Any:
        @function_tool
        def get_weather(city: str) -> Weather:
            """Get the weather."""
            trial.runs.note(city)
            return Weather(city=city, degrees=7)

        steps = calling(weather("Oslo"), after=trial.until("Oslo")), saying('{"umbrella": true}')
        chat = trial.model(*steps, drafts=[[weather("Oslo")]])
        adviser = Agent(name="adviser", model=chat, tools=[trial.tool(get_weather)], output_type=Advice)
        result = await run(adviser, streamed=streamed)
        assert result.final_output == Advice(umbrella=True)
        return transcript(result)

    _, trial = compared(main)
    assert trial.runs.made == ["Oslo"]


def weather_tool(runs: Runs) -> Any:
    @function_tool
    async def get_weather(city: str) -> str:
        """Get the weather."""
        return runs.note(city)

    return get_weather


def test_items_of_a_stream() -> None:
    """The events that a user interface reads, of calls that were run speculatively and of others."""

    async def main(trial: Trial) -> list[str]:
        calls = calling(weather("Rome"), weather("Oslo"), after=trial.until("Oslo", "Rome"))
        chat = trial.model(calls, saying("It rains."), drafts=[[weather("Oslo"), weather("Rome")]])
        one = Agent(name="a", model=chat, tools=[trial.tool(weather_tool(trial.runs))])
        result = Runner.run_streamed(one, "hi", run_config=SILENT)
        seen: list[str] = []
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                seen.append(event.data.type)
            elif event.type == "run_item_stream_event":
                seen.append(f"{event.name} {getattr(event.item, 'output', '')}")
            else:
                seen.append(event.type)
        assert ItemHelpers.text_message_outputs(result.new_items) == "It rains."
        return seen

    compared(main)


class Passenger(BaseModel):
    """The context of an airline's conversation."""

    seat: str = ""


@STREAMED
def test_customer_service(streamed: bool) -> None:
    """A triage agent hands over to one that answers questions and one that changes a seat, and back."""

    async def main(trial: Trial) -> tuple[Any, Passenger]:
        @function_tool
        async def look_up_faq(question: str) -> str:
            """Look up a question."""
            return trial.runs.note(question)

        @function_tool
        async def change_seat(context: RunContextWrapper[Passenger], seat: str) -> str:
            """Change the seat."""
            context.context.seat = seat
            return trial.runs.note(f"seat {seat}")

        chat = trial.model(
            calling(ToolCall("transfer_to_faq", {}, "1")),
            calling(faq("bags"), after=trial.until("bags")),
            saying("Two bags."),
            calling(ToolCall("transfer_to_triage", {}, "2")),
            calling(ToolCall("transfer_to_seats", {}, "3")),
            calling(ToolCall("change_seat", {"seat": "1A"}, "4")),
            saying("You have 1A."),
            # In the first turn the tool is drafted as well, but the triage agent does not have it.
            drafts=[[faq("bags")], [faq("bags")]],
        )
        triage: Agent[Passenger] = Agent(name="triage", model=chat, tools=[])
        question = trial.tool(look_up_faq)
        helper: Agent[Passenger] = Agent(name="faq", model=chat, tools=[question], handoffs=[triage])

        async def on_handoff(context: RunContextWrapper[Passenger]) -> None:
            trial.runs.note("handed over")

        seats: Agent[Passenger] = Agent(name="seats", model=chat, tools=[change_seat], handoffs=[triage])
        triage.handoffs = [helper, handoff(seats, on_handoff=on_handoff)]

        passenger = Passenger()
        first = await run(triage, streamed=streamed, input="How many bags?", context=passenger)
        assert first.last_agent is helper
        further = [*first.to_input_list(), {"role": "user", "content": "Give me seat 1A"}]
        second = await run(first.last_agent, streamed=streamed, input=further, context=passenger)
        assert second.last_agent is seats
        return transcript(second), passenger

    _, trial = compared(main)
    assert trial.runs.made == ["bags", "handed over", "seat 1A"]
    assert trial.claims == [1]


@STREAMED
def test_agents_as_tools(streamed: bool) -> None:
    """An orchestrator calls another agent and a tool in one answer; both agents have the tool."""

    async def main(trial: Trial) -> Any:
        rome, oslo = weather("Rome"), weather("Oslo")
        inner = trial.model(calling(rome, after=trial.until("Rome")), saying("Rome: sun"), drafts=[[rome]])
        ask = ToolCall("ask_traveller", {"input": "Rome?"}, "1")
        outer = trial.model(
            calling(ask, oslo, after=trial.until("Oslo")), saying("Go to Rome."), drafts=[[oslo]]
        )
        tool = trial.tool(weather_tool(trial.runs))
        traveller = Agent(name="traveller", model=inner, tools=[tool])
        asking = traveller.as_tool("ask_traveller", "Ask a traveller.")
        result = await run(Agent(name="planner", model=outer, tools=[asking, tool]), streamed=streamed)
        assert outputs(result) == ["Rome: sun", "found Oslo"]
        return transcript(result)

    _, trial = compared(main)
    assert trial.claims == [1, 1]


@STREAMED
def test_a_call_beside_an_agent_that_is_a_tool(streamed: bool) -> None:
    """The run of the inner agent, on the same predictors, is over before the other call is made."""
    runs = Runs()
    get_weather = speculable(weather_tool(runs))

    ask = ToolCall("ask_traveller", {"input": "Rome?"}, "1")
    provider = speculate(
        Provider(
            outer=model(calling(ask, weather("Oslo"), after=runs.until("Oslo")), saying("Go.")),
            inner=model(calling(weather("Rome"), after=runs.until("Rome")), saying("sun")),
        ),
        ByUser(lambda words: weather(words.strip("?"))),
    )
    config = RunConfig(
        model_provider=provider,
        tracing_disabled=True,
        tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1),
    )
    traveller = Agent(name="traveller", model="inner", tools=[get_weather])
    asking = traveller.as_tool("ask_traveller", "Ask.", run_config=config)
    planner = Agent(name="planner", model="outer", tools=[asking, get_weather])

    result = asyncio.run(run(planner, streamed=streamed, input="Oslo", run_config=config))

    assert outputs(result) == ["sun", "found Oslo"]
    assert sorted(runs.made) == ["Oslo", "Rome"]
    assert report_of(provider).total.claims == 2


def test_parallelization() -> None:
    """One agent runs several times at once, and another chooses among the results."""
    runs = Runs()
    get_weather = speculable(weather_tool(runs))

    cities = ["Oslo", "Rome", "Bern"]
    states = {city: model(calling(weather(city), after=runs.until(*cities)), saying(city)) for city in cities}

    provider = speculate(Provider(**states), ByUser(weather))

    async def main() -> list[str]:
        config = RunConfig(model_provider=provider, tracing_disabled=True)
        with trace("parallel", disabled=True):
            results = await asyncio.gather(
                *(
                    Runner.run(Agent(name=city, model=city, tools=[get_weather]), city, run_config=config)
                    for city in cities
                )
            )
        return [result.final_output for result in results]

    assert asyncio.run(main()) == cities
    assert sorted(runs.made) == sorted(cities)
    assert report_of(provider).total.claims == 3


@STREAMED
async def test_an_input_guardrail_that_is_an_agent(streamed: bool) -> None:
    """Another agent decides whether the input is a student's homework."""

    runs = Runs()
    judge = Agent(name="judge", model=model(saying('{"is_homework": true}')), output_type=Homework)

    decided = asyncio.Event()

    @input_guardrail
    async def no_homework(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        decided.set()
        found = await Runner.run(judge, input, context=context.context, run_config=SILENT)
        return GuardrailFunctionOutput(found.final_output, found.final_output.is_homework)

    chat = speculate(model(calling(weather("Oslo"), after=after(decided))), Drafts([weather("Oslo")]))
    tutor = Agent(
        name="tutor", model=chat, tools=[speculable(weather_tool(runs))], input_guardrails=[no_homework]
    )

    with pytest.raises(InputGuardrailTripwireTriggered):
        await run(tutor, streamed=streamed, input="Solve x + 5 = 7.")
    assert runs.made == []


@STREAMED
def test_a_person_in_the_loop(streamed: bool) -> None:
    """A tool that only reads and one that a person has to approve, in one answer; the state is saved."""

    async def main(trial: Trial) -> Any:
        @function_tool(needs_approval=True)
        async def cancel_order(order: int) -> str:
            return trial.runs.note(f"cancelled {order}")

        cancel = ToolCall("cancel_order", {"order": 7}, "cancel")
        calls = calling(weather("Oslo"), cancel, after=trial.until("Oslo"))
        chat = trial.model(calls, saying("Cancelled."), drafts=[[cancel, weather("Oslo")]])
        tools = [trial.tool(tool) for tool in (weather_tool(trial.runs), cancel_order)]
        clerk = Agent(name="clerk", model=chat, tools=tools)
        paused = await run(clerk, streamed=streamed)
        assert trial.runs.made == ["Oslo"]
        state = await RunState.from_string(clerk, paused.to_state().to_string())
        for interruption in state.get_interruptions():
            state.approve(interruption)
        return transcript(await run(clerk, streamed=streamed, input=state))

    _, trial = compared(main)
    assert trial.runs.made == ["Oslo", "cancelled 7"]
    assert trial.claims == [1]
