"""The pattern speculator learns from what was called, and keeps it safely."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    HistoryCorruptError,
    HistoryLockedError,
    HistoryStoreError,
)
from agentrt.lookahead.request import after_draft
from agentrt.reports.events import SpeculationEvent, SpeculationStarted
from agentrt.speculators import PatternSpeculator, Speculator
from tests.hypothesis_profiles import examples


def tool(name: str, *parameters: str) -> dict[str, Any]:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [tool("list_orders", "customer"), tool("read_order", "order_id"), tool("send_reply", "text")]


class Conversation:
    """An agent that lists a customer's orders, reads each of them, and answers."""

    def __init__(self, customer: str, orders: list[str]) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "user", "content": f"What did my customer {customer} order?"}
        ]
        results: list[tuple[ToolCall, Any]] = [(ToolCall("list_orders", {"customer": customer}), orders)]
        results += [(ToolCall("read_order", {"order_id": each}), {"items": 3}) for each in orders]
        self.results = results

    def turns(self) -> Iterator[tuple[DraftRequest, list[ToolCall]]]:
        for number, (call, result) in enumerate(self.results):
            yield DraftRequest(list(self.messages), TOOLS), [call]
            made = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
            calls = [{"id": f"c{number}", "type": "function", "function": made}]
            self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            self.messages.append(
                {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(result)}
            )
        yield DraftRequest(list(self.messages), TOOLS), []


def orders(number: int) -> Conversation:
    return Conversation(f"cust_{number}", [f"ORD{number}{each}" for each in range(3)])


def predictions(predictor: PatternSpeculator, request: DraftRequest) -> list[ToolCall]:
    async def collect() -> list[ToolCall]:
        return [call async for call in predictor.drafts(request)]

    return asyncio.run(collect())


def live_through(predictor: PatternSpeculator, conversation: Conversation) -> list[bool]:
    """For each call of a conversation whether it was guessed; the predictor learns on the way."""
    hits = []
    for request, calls in conversation.turns():
        guessed = predictions(predictor, request)
        hits += [call in guessed for call in calls]
        predictor.learn(request, calls)
    return hits


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


def test_it_stops_to_guess_where_the_model_used_to_answer(predictor: PatternSpeculator) -> None:
    for number in range(8):
        live_through(predictor, orders(number))
    conversation = orders(50)
    live_through(predictor, conversation)
    assert predictions(predictor, DraftRequest(list(conversation.messages), TOOLS)) == []


def test_only_what_may_run_early_is_guessed(predictor: PatternSpeculator) -> None:
    for number in range(4):
        live_through(predictor, orders(number))
    request = DraftRequest(orders(9).messages, TOOLS, speculable=["read_order"])
    assert all(call.name == "read_order" for call in predictions(predictor, request))


def test_a_guess_depends_on_nothing_that_comes_later() -> None:
    """The same past gives the same guesses, whatever follows it."""

    def guessed(last: Conversation) -> list[list[ToolCall]]:
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
    assert guessed(one) == guessed(other)


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


def test_what_was_learned_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.sqlite"
    first = PatternSpeculator(path)
    for number in range(6):
        live_through(first, orders(number))
    first.close()
    second = PatternSpeculator(path)
    assert live_through(second, orders(77)) == [True] * 4
    second.forget()
    request = DraftRequest(orders(78).messages, TOOLS)
    knows_nothing = predictions(PatternSpeculator(), request)
    assert predictions(second, request) == knows_nothing
    second.close()
    third = PatternSpeculator(path)
    assert predictions(third, request) == knows_nothing
    third.close()


def test_the_store_is_its_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history.sqlite"
    predictor = PatternSpeculator(path)
    live_through(predictor, orders(1))
    predictor._worker.submit(lambda: None).result()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = list(path.parent.iterdir())
    assert len(files) == 3  # with the write-ahead log and its index
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    predictor.close()
    path.chmod(0o644)
    PatternSpeculator(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_store_holds_no_words_and_no_value_that_came_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    predictor = PatternSpeculator(path)
    tools = [tool("sign_in", "user", "password"), tool("look_up", "topic")]
    for _ in range(3):
        said = {"role": "user", "content": "I am daisy with the phrase hunter2, about marmalade"}
        call = ToolCall("sign_in", {"user": "daisy", "password": "hunter2"})
        predictor.learn(DraftRequest([said], tools), [call])
    said = {"role": "user", "content": "what about marmalade?"}
    predictor.learn(DraftRequest([said], tools), [ToolCall("look_up", {"topic": "marmalade"})])
    predictor.close()
    kept = path.read_bytes()
    assert b"daisy" in kept  # it came three times, and is no secret by its name
    assert not any(word in kept for word in (b"hunter2", b"marmalade", b"phrase"))


def test_files_that_are_no_history_are_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    text = tmp_path / "text.sqlite"
    text.write_text("no database " * 100)
    for path in (other, text):
        before = path.read_bytes()
        with pytest.raises(HistoryCorruptError, match=r"Name another|Move it away"):
            PatternSpeculator(path)
        assert path.read_bytes() == before
    with pytest.raises(HistoryStoreError, match="Name a file"):
        PatternSpeculator(tmp_path)
    link = tmp_path / "link.sqlite"
    link.symlink_to(other)
    with pytest.raises(HistoryStoreError, match="Name a file"):
        PatternSpeculator(link)


@examples(25)
@given(at=st.floats(0, 1), damage=st.binary(min_size=1, max_size=600))
def test_a_damaged_store_is_usable_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: float, damage: bytes
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "history.sqlite"
    predictor = PatternSpeculator(path)
    live_through(predictor, orders(1))
    predictor.close()
    content = bytearray(path.read_bytes())
    start = int(at * len(content))
    content[start : start + len(damage)] = damage[: len(content) - start]
    path.write_bytes(content)
    try:
        again = PatternSpeculator(path)
    except HistoryStoreError:
        return
    live_through(again, orders(2))
    again.close()


def test_a_locked_store_is_told_at_the_start_and_waited_out_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.sqlite"
    predictor = PatternSpeculator(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    live_through(predictor, Conversation("cust_1", ["ORD1"]))
    predictor._worker.submit(lambda: None).result()
    assert caplog.messages == [
        f"the pattern speculator cannot keep what it learns: {path} is held by another process. "
        "Try again, or name another file."
    ]
    other.execute("ROLLBACK")
    live_through(predictor, orders(2))
    predictor.close()
    assert other.execute("SELECT count(*) FROM places").fetchone() == (2,)
    other.close()
    fresh = tmp_path / "fresh.sqlite"
    holder = sqlite3.connect(fresh, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(HistoryLockedError, match="another process"):
        PatternSpeculator(fresh)
    holder.close()


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


def test_a_closed_predictor_guesses_nothing_and_raises_nothing(tmp_path: Path) -> None:
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


def test_in_a_session_it_learns_from_turns_and_its_guesses_are_claimed() -> None:
    started = threading.Event()

    class Observer:
        def on_event(self, event: SpeculationEvent) -> None:
            if isinstance(event, SpeculationStarted):
                started.set()

    @speculable
    def list_orders(customer: str) -> list[str]:
        return [f"{customer}-1", f"{customer}-2"]

    @speculable
    def read_order(order_id: str) -> str:
        return f"contents of {order_id}"

    predictor = PatternSpeculator()
    with SpeculationSession([list_orders, read_order], [predictor], observers=[Observer()]) as session:
        for number in range(8):
            conversation = Conversation(f"C{number}", [f"C{number}-1", f"C{number}-2"])
            for place, (request, calls) in enumerate(conversation.turns()):
                calls = [ToolCall(call.name, call.arguments, f"c{number}.{place}") for call in calls]
                started.clear()
                with session.turn(request.messages, request.tools) as turn:
                    if number == 7 and calls:
                        assert started.wait(20)  # by now it is sure of every call
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


def test_its_guesses_run_before_the_results_before_them_are_there(predictor: PatternSpeculator) -> None:
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
                    await asyncio.wait_for(event.wait(), 20)
            return {"items": 3}

        async def model(messages: Any, tools: Any) -> Any:
            step = sum(message["role"] == "assistant" for message in messages)
            await asyncio.wait_for(started["ORD772"].wait(), 20)
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


def test_wrong_use_is_told() -> None:
    with pytest.raises(ConfigurationError, match="guesses"):
        PatternSpeculator(predictions=0)
    with pytest.raises(ConfigurationError, match="least_chance"):
        PatternSpeculator(least_chance=1.0)
