"""The pattern speculator learns from the calls that were made."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentrt import (
    DraftRequest,
    SpeculationConfig,
    SpeculationReport,
    SpeculationSession,
    ToolCall,
    speculable,
)
from agentrt.config import TurnAhead
from agentrt.errors import ConfigurationError
from agentrt.lookahead.model_request import after_draft
from agentrt.reports.events import SpeculationEvent, SpeculationStarted
from agentrt.speculators import PatternSpeculator, Speculator
from tests.patience import PATIENCE_S
from tests.speculators.pattern.conversations import (
    TOOLS,
    Conversation,
    live_through,
    orders,
    predictions,
    tool,
)

pytestmark = pytest.mark.usefixtures("prediction_is_free")


@pytest.fixture
def predictor() -> Iterator[PatternSpeculator]:
    made = PatternSpeculator()
    yield made
    made.close()


def test_it_learns_to_list_and_then_to_read_each(predictor: PatternSpeculator) -> None:
    assert isinstance(predictor, Speculator)
    for number in range(6):
        live_through(predictor, orders(number))
    assert live_through(predictor, orders(77)) == [True] * 4  # a customer and orders never seen before


def asked(question: str, *tools: Any) -> DraftRequest:
    return DraftRequest([{"role": "user", "content": question}], list(tools))


def test_a_first_call_is_predicted_if_it_is_likely(predictor: PatternSpeculator) -> None:
    tools = tool("search_web", "query"), tool("look_up", "word")
    assert predictions(predictor, asked("Hello!", *tools)) == []
    request = asked('Search the web for "kayak rental"', *tools)
    assert predictions(predictor, request) == [ToolCall("search_web", {"query": "kayak rental"})]


def test_a_first_call_must_be_likelier_than_others(tmp_path: Path) -> None:
    """The same tools and requests, once with a call of each tool in the history."""
    bold = PatternSpeculator(min_probability=0.01, max_drafts=64)
    tools = tool("search_web", "query"), tool("look_up", "word"), tool("list_files", "folder")
    request = asked('Search the web for "kayak rental"', *tools)
    first = {call.name for call in predictions(bold, request)}
    for name, parameter in (("search_web", "query"), ("look_up", "word"), ("list_files", "folder")):
        bold.learn(asked("Hello!", *tools), [ToolCall(name, {parameter: "x"})])
    again = {call.name for call in predictions(bold, asked('Search the web for "rowing boats"', *tools))}
    bold.close()
    assert first == {"search_web"}
    assert again == {"search_web", "look_up", "list_files"}


def test_an_argument_comes_from_where_it_came_from_before(predictor: PatternSpeculator) -> None:
    """An order's number came from results only, so no word of a request is taken for one."""
    tools = [tool("find_order", "customer"), tool("read_order", "number")]
    bold = PatternSpeculator(min_probability=0.001, max_drafts=64)

    def history(customer: str, found: str, then: str) -> list[dict[str, Any]]:
        function = {"name": "find_order", "arguments": json.dumps({"customer": customer})}
        return [
            {"role": "user", "content": f"Where is the order of {customer}?"},
            {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "1", "content": found},
            {"role": "user", "content": then},
        ]

    for number in range(3):
        request = DraftRequest(history(f"C{number}", f"order-{number}77", "Read it."), tools)
        bold.learn(request, [ToolCall("read_order", {"number": f"order-{number}77"})])
    drafted = [
        {call.arguments["number"] for call in predictions(bold, request) if call.name == "read_order"}
        for result in ("order-577", "none")
        for request in [DraftRequest(history("ACME", result, "Then read order-903."), tools)]
    ]
    bold.close()
    assert "order-577" in drafted[0]
    assert "order-903" not in drafted[0] | drafted[1]


_PRINT_FEATURES = """
import json
from agentrt.speculators.pattern.events import read_events
from agentrt.speculators.pattern.memory import PatternMemory
from agentrt.speculators.pattern.next_call import PRIOR, NextCallModel

words = "kayak rental boats lake water harbour island ferry north coast weather wind".split()
tools = [
    {"type": "function", "function": {"name": "_".join(words[at : at + 5]), "parameters": {}}}
    for at in range(9)
]
shops = [{"id": number, "text": " ".join(words[number:])} for number in range(9)]
call = {"id": "1", "type": "function", "function": {"name": "shops", "arguments": "{}"}}
messages = [
    {"role": "user", "content": " ".join(words[::2])},
    {"role": "assistant", "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "1", "content": json.dumps(shops)},
]
model = NextCallModel(PatternMemory(PRIOR), read_events(messages), tools)
features = sorted((key, value.features) for key, value in model._values.by_key.items())
print([cover.hex() for cover in model._features._covers.values()], features)
"""


@pytest.mark.slow
def test_predictions_are_the_same_in_every_process() -> None:
    """The order in a set of words is another one in each process, and with it what a sum rounds to."""
    told = {
        subprocess.run(
            [sys.executable, "-c", _PRINT_FEATURES],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(told) == 1


def test_a_tool_without_parameters_counts_as_called_also_in_the_store(tmp_path: Path) -> None:
    tools = [tool(name) for name in ("list_files", "list_users", "list_mails", "list_notes", "list_days")]
    request = asked("Hello!", *tools)
    first = PatternSpeculator(tmp_path / "history.sqlite", min_probability=0.01)
    assert predictions(first, request) == []
    first.learn(asked("Bye!", *tools), [ToolCall("list_files", {})])
    first.close()
    second = PatternSpeculator(tmp_path / "history.sqlite", min_probability=0.01)
    assert predictions(second, request) == [ToolCall("list_files", {})]
    second.close()


def test_it_predicts_no_call_where_the_model_used_to_answer(predictor: PatternSpeculator) -> None:
    for number in range(8):
        live_through(predictor, orders(number))
    conversation = orders(50)
    live_through(predictor, conversation)
    assert predictions(predictor, DraftRequest(list(conversation.messages), TOOLS)) == []


def test_only_speculable_tools_are_predicted(predictor: PatternSpeculator) -> None:
    for number in range(4):
        live_through(predictor, orders(number))
    request = DraftRequest(orders(9).messages, TOOLS, speculable=["read_order"])
    assert all(call.name == "read_order" for call in predictions(predictor, request))


def test_a_prediction_depends_on_nothing_that_comes_later() -> None:
    """The same past gives the same predictions, whatever follows it."""

    def predicted(last: Conversation) -> list[list[ToolCall]]:
        predictor = PatternSpeculator()
        for number in range(3):
            live_through(predictor, orders(number))
        seen = []
        for request, calls in list(last.turns())[:2]:
            seen.append(predictions(predictor, request))
            predictor.learn(request, calls)
        predictor.close()
        return seen

    one, other = orders(8), orders(8)
    other.results[2:] = [(ToolCall("send_reply", {"text": "no"}), "sent")]
    assert predicted(one) == predicted(other)


def test_values_that_keep_coming_are_known(predictor: PatternSpeculator) -> None:
    tools = [tool("forecast", "city")]
    for _ in range(5):
        request = DraftRequest([{"role": "user", "content": "How will it be today?"}], tools)
        predictor.learn(request, [ToolCall("forecast", {"city": "Reykjavik"})])
    request = DraftRequest([{"role": "user", "content": "How will it be today?"}], tools)
    assert predictions(predictor, request) == [ToolCall("forecast", {"city": "Reykjavik"})]


def test_what_the_system_prompt_says_may_be_an_argument(predictor: PatternSpeculator) -> None:
    tools = [tool("open_calendar", "user_id")]

    def asked_by(user: str) -> DraftRequest:
        told = {"role": "system", "content": f"You are a helpful assistant.\nThe user_id: {user}"}
        return DraftRequest([told, {"role": "user", "content": "What is on my calendar?"}], tools)

    for user in ("U100", "U200", "U300", "U400"):
        predictor.learn(asked_by(user), [ToolCall("open_calendar", {"user_id": user})])
    assert predictions(predictor, asked_by("U777"))[0] == ToolCall("open_calendar", {"user_id": "U777"})


def test_messages_of_any_shape_are_no_problem(predictor: PatternSpeculator) -> None:
    odd: list[Any] = [
        {"role": "user"},
        {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "and this"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": 7}, {"function": {"name": "x"}}]},
        {"role": "tool", "tool_call_id": "nobody", "content": '{"a": [' * 500},
        {"role": "tool", "tool_call_id": 7, "content": "[" + "1e999, NaN, " * 40},
        {"role": "function", "content": 3},
        {},
    ]
    schemas: list[Any] = [{}, {"type": "function", "function": {"name": "x"}}, *TOOLS]
    request = DraftRequest(odd, schemas)
    predictions(predictor, request)
    predictor.learn(request, [ToolCall("x", {"deep": [[[[1.5]]]], "n": None}), ToolCall("unknown", {})])
    predictions(predictor, DraftRequest(odd, schemas))
    predictor._worker.submit(lambda: None).result()


def test_a_closed_predictor_predicts_nothing_and_raises_nothing(tmp_path: Path) -> None:
    predictor = PatternSpeculator(tmp_path / "history.sqlite")
    predictor.close()
    request = DraftRequest(orders(1).messages, TOOLS)
    predictor.learn(request, [])
    assert predictions(predictor, request) == []


def test_a_slow_worker_drops_work_instead_of_piling_it_up(predictor: PatternSpeculator) -> None:
    hold = threading.Event()
    predictor._worker.submit(hold.wait)
    for _ in range(500):
        predictor.learn(DraftRequest([], TOOLS), [])
    assert predictor._worker._work_queue.qsize() <= 65
    hold.set()


def test_in_a_session_it_learns_from_turns_and_its_drafts_are_claimed() -> None:
    started = threading.Event()

    decided = threading.Semaphore(0)

    class Observer:
        def on_event(self, event: SpeculationEvent) -> None:
            if isinstance(event, SpeculationStarted):
                started.set()

    class Predictor(PatternSpeculator):
        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            async for draft in super().drafts(request):
                yield draft
            decided.release()

    @speculable
    def list_orders(customer: str) -> list[str]:
        return [f"{customer}-1", f"{customer}-2"]

    @speculable
    def read_order(order_id: str) -> str:
        return f"contents of {order_id}"

    predictor = Predictor()
    free = SpeculationConfig(wasted_second_weight=0)  # the first drafts are wrong
    with SpeculationSession(
        [list_orders, read_order], [predictor], config=free, observers=[Observer()]
    ) as session:
        for number in range(8):
            conversation = Conversation(f"C{number}", [f"C{number}-1", f"C{number}-2"])
            for place, (request, calls) in enumerate(conversation.turns()):
                calls = [ToolCall(call.name, call.arguments, f"c{number}.{place}") for call in calls]
                started.clear()
                with session.turn(request.messages, request.tools) as turn:
                    assert decided.acquire(timeout=PATIENCE_S)
                    if number == 7 and calls:
                        assert started.wait(PATIENCE_S)  # by now it is sure of every call
                    turn.bind(calls)
                for call in calls:
                    session.call(call)
    report = session.report()
    assert report.predictors["pattern"].correct >= 3
    assert report.total.claims >= 3
    predictor.close()


def test_it_looks_ahead_as_far_as_no_result_is_needed(predictor: PatternSpeculator) -> None:
    for number in range(8):
        live_through(predictor, orders(number))
    ahead = []
    for request, calls in orders(77).turns():
        ahead += [predictions(predictor, after_draft(request, call)) for call in calls]
    the_second, the_third = (ToolCall("read_order", {"order_id": f"ORD77{each}"}) for each in (1, 2))
    assert ahead == [[], [the_second], [the_third], []]  # what the list will hold cannot be known


def test_its_drafts_run_before_the_results_before_them_are_there(predictor: PatternSpeculator) -> None:
    for number in range(8):
        live_through(predictor, orders(number))
    conversation = orders(77)
    script = [call for call, _ in conversation.results]

    async def main() -> tuple[list[Any], SpeculationReport]:
        started = {f"ORD77{each}": asyncio.Event() for each in range(3)}

        @speculable
        async def list_orders(customer: str) -> list[str]:
            return list(started)

        @speculable
        async def read_order(order_id: str) -> dict[str, int]:
            started[order_id].set()
            for other, event in started.items():
                if other > order_id:  # which only a look ahead can have started
                    await asyncio.wait_for(event.wait(), PATIENCE_S)
            return {"items": 3}

        async def model(messages: Any, tools: Any) -> Any:
            step = sum(message["role"] == "assistant" for message in messages)
            await asyncio.wait_for(started["ORD772"].wait(), PATIENCE_S)
            if step == len(script):
                return {"role": "assistant", "content": "done"}
            function = {"name": script[step].name, "arguments": json.dumps(dict(script[step].arguments))}
            made = {"id": f"c{step}", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [made]}

        messages: list[Any] = list(conversation.messages)
        config = SpeculationConfig(turn_ahead=TurnAhead(depth=3))
        tools = [list_orders, read_order]
        async with SpeculationSession(tools, [predictor], config=config) as session:
            for step, call in enumerate(script):
                messages.append(await session.ask(model, messages, TOOLS))
                value = await session.acall(ToolCall(call.name, call.arguments, f"c{step}"))
                told = {"role": "tool", "tool_call_id": f"c{step}", "content": json.dumps(value)}
                messages.append(told)
            messages.append(await session.ask(model, messages, TOOLS))
        return messages, session.report()

    messages, report = asyncio.run(main())
    assert messages[-1]["content"] == "done"
    assert report.total.claims == len(script)
    assert report.ahead.kept == len(script)
    asked = report.predictors["pattern"]
    assert asked.started == len(report.turns)  # once a turn, though it is shown the result as well


def test_wrong_use_raises() -> None:
    with pytest.raises(ConfigurationError, match="max_drafts"):
        PatternSpeculator(max_drafts=0)
    with pytest.raises(ConfigurationError, match="min_probability"):
        PatternSpeculator(min_probability=1.0)
