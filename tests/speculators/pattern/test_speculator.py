"""The pattern speculator learns from the calls that were made."""

from __future__ import annotations

import asyncio
import json
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
from agentrt.errors import (
    ConfigurationError,
)
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


def test_a_tool_that_was_never_called_is_not_predicted(predictor: PatternSpeculator) -> None:
    def asked(question: str) -> DraftRequest:
        tools = [tool("search_web", "query"), tool("look_up", "word")]
        return DraftRequest([{"role": "user", "content": question}], tools)

    request = asked('Search the web for "kayak rental"')
    assert predictions(predictor, asked("Hello!")) == predictions(predictor, request) == []
    predictor.learn(request, [ToolCall("search_web", {"query": "kayak rental"})])
    again = asked('Search the web for "rowing boats"')
    assert predictions(predictor, again)[0] == ToolCall("search_web", {"query": "rowing boats"})
    assert {call.name for call in predictions(predictor, again)} == {"search_web"}


def test_a_call_in_the_conversation_counts_also_if_it_was_not_learned(predictor: PatternSpeculator) -> None:
    requests = [request for request, _ in orders(1).turns()]
    found = [{call.name for call in predictions(predictor, request)} for request in requests[:3]]
    assert found[0] == set()
    assert "list_orders" in found[1] | found[2]
    assert "send_reply" not in found[2]


def test_a_tool_without_parameters_is_predicted_once_it_was_called(tmp_path: Path) -> None:
    tools = [tool("list_files")]
    request = DraftRequest([{"role": "user", "content": "List files"}], tools)
    first = PatternSpeculator(tmp_path / "history.sqlite")
    assert predictions(first, request) == []
    for _ in range(3):
        first.learn(
            DraftRequest([{"role": "user", "content": "List files"}], tools), [ToolCall("list_files", {})]
        )
    first.close()
    second = PatternSpeculator(tmp_path / "history.sqlite")
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
