"""A session end to end: SpecTools' Algorithm 2, in virtual time where timing matters."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.calls import TextDelta
from agentrt.errors import ConfigurationError, InvalidRequestError
from agentrt.perfmodel import TurnTimes
from agentrt.reports.events import CallClaimed, DraftRefused, SpeculationEvent
from agentrt.testing import ScriptedSpeculator
from tests.agentrt.loops import in_virtual_time
from tests.agentrt.turns.sessions import call, drafting, drive, slow_tool
from tests.hypothesis_profiles import examples
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("prediction_is_free")


@examples(60)
@given(generation=st.integers(1, 50), draft=st.integers(1, 50), tool=st.integers(1, 50), hit=st.booleans())
def test_a_turn_takes_exactly_what_equation_1_says(generation: int, draft: int, tool: int, hit: bool) -> None:
    # A draft that comes after the answer is no draft; one that comes with it may or may not count.
    if draft != generation:
        claimed = hit and draft < generation
        expected = TurnTimes(generation, draft, tool).speculative(1.0 if claimed else 0.0)
        predictor = drafting(call("a" if hit else "wrong"), delay=draft)
        driven = drive(slow_tool(tool, []), predictor, [call("a")], generation_s=generation)
        assert driven.results == ["found a"]
        assert driven.seconds == pytest.approx(expected)


def test_the_report_has_hits_misses_waste_and_seconds() -> None:
    events: list[SpeculationEvent] = []
    observer = SimpleNamespace(on_event=events.append)
    predictor = ScriptedSpeculator([call("a"), call("loser")], [call("wrong")])
    turns = [call("a", "1")], [call("b", "2")]
    report = drive(slow_tool(0.0, []), [predictor], *turns, observers=[observer]).report
    assert (report.total.claims, report.total.misses, report.total.wasted) == (1, 1, 2)
    assert report.total.claim_rate == 0.5
    assert [[c.hit for c in turn.calls] for turn in report.turns] == [[True], [False]]
    assert report.turns[1].calls[0].reason == "not predicted"
    assert report.total.saved_s == pytest.approx(
        sum(event.saved_s for event in events if isinstance(event, CallClaimed))
    )


def test_a_repeated_draft_runs_once() -> None:
    runs: list[str] = []
    predictors = [drafting(call("a"), call("a")), drafting(call("a"))]
    drive(slow_tool(5, runs), predictors, [call("a")], samples=3)
    assert [p.requests[0].samples for p in predictors] == [3, 3]
    assert runs == ["a"]


def test_equal_calls_of_one_answer_share_no_result() -> None:
    runs: list[str] = []
    driven = drive(slow_tool(5, runs), drafting(call("a")), [call("a", "1"), call("a", "2")])
    assert driven.results == ["found a"] * 2
    assert driven.report.turns[0].calls[1].reason == "taken by an equal call"
    assert runs == ["a", "a"]


@in_virtual_time
async def test_predictors_read_the_answer_and_learn_its_calls() -> None:
    class Reader:
        def __init__(self) -> None:
            self.read: list[object] = []
            self.learned: list[tuple[str, Sequence[ToolCall]]] = []

        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            async for event in request.answer.events():
                self.read.append(event)
                yield call("a")

        def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
            self.learned.append((str(request.messages[0]["content"]), calls))
            raise LookupError

    reader = Reader()
    async with SpeculationSession([slow_tool(5, [])], [reader]) as session:
        with session.turn([{"role": "user", "content": "hi"}], []) as turn:
            turn.observe(TextDelta("let me see"))
            await asyncio.sleep(1)
            turn.bind([call("a")])
        assert await session.acall(call("a")) == "found a"
        with session.turn([], []):
            pass  # a turn without an answer teaches nothing, and its readers end
    assert session.report().total.wasted == 0
    assert session.report().turns[0].problems[-1:] == ("Reader failed: LookupError",)
    assert reader.read == [TextDelta("let me see")]
    assert reader.learned == [("hi", [call("a")])]


def test_sync_code_speculates_in_threads() -> None:
    main_thread, started, release = threading.current_thread(), threading.Event(), threading.Event()
    runs: list[str] = []

    @speculable
    def look(q: str) -> str:
        runs.append(q)
        assert threading.current_thread() is not main_thread
        started.set()
        release.wait()
        return f"found {q}"

    with SpeculationSession([look], drafting(call("a"))) as session:
        with session.turn([], []) as turn:
            assert started.wait(PATIENCE_S)
            turn.bind([call("a")])
        release.set()
        assert session.call(call("a")) == "found a"
    assert runs == ["a"]


def test_a_coroutine_tool_is_not_speculated_in_sync_code() -> None:
    refused = threading.Event()
    observer = SimpleNamespace(on_event=lambda event: isinstance(event, DraftRefused) and refused.set())
    with SpeculationSession([slow_tool(0, [])], drafting(call("a")), observers=[observer]) as session:
        with session.turn([], []) as turn:
            assert refused.wait(PATIENCE_S)
            turn.bind([])
        with pytest.raises(InvalidRequestError, match="async code"):
            session.call(call("a"))
    assert "a coroutine tool cannot run speculatively" in session.report().turns[0].problems[0]


@in_virtual_time
async def test_two_runs_with_the_same_call_id_get_what_is_theirs() -> None:
    user: ContextVar[str] = ContextVar("user")
    runs: list[str] = []

    @speculable
    async def inbox(folder: str) -> str:
        runs.append(user.get())
        await asyncio.sleep(1)
        return f"{folder} of {user.get()}"

    opened = ToolCall("inbox", {"folder": "new"}, "call_0")

    async def serve(name: str, predictor: ScriptedSpeculator) -> str:
        user.set(name)
        async with SpeculationSession([inbox], [predictor]) as session:
            with session.turn([], []) as turn:
                await asyncio.sleep(5)
                turn.bind([opened])
            await asyncio.sleep(5)  # both answers are there before either call is made
            answer: str = await session.acall(opened)
            return answer

    draft = ScriptedSpeculator([opened], [opened])
    assert (await asyncio.gather(serve("ann", draft), serve("bob", draft))) == ["new of ann", "new of bob"]
    assert runs == ["ann", "bob"]


def session(**options: Any) -> SpeculationSession:
    return SpeculationSession([slow_tool(1, [])], [], **options)


@pytest.mark.parametrize(
    ("use", "error", "problem"),
    [
        (lambda: session().turn([], []), ConfigurationError, "with or async with"),
        (lambda: SpeculationSession([print], []), ConfigurationError, "@speculable"),
        (lambda: SpeculationSession([slow_tool(1, [])], [None]), ConfigurationError, "Give a predictor"),
        (lambda: session(config={"mode": "on"}), ConfigurationError, "config: .*dict.* Give a Speculation"),
        (lambda: session(samples="3"), ConfigurationError, "samples.* at least 1"),
        (lambda: session(samples=0), ConfigurationError, "samples.* at least 1"),
        (lambda: session().call(ToolCall("other", {})), InvalidRequestError, "no speculable tool 'other'"),
        (lambda: session().call(ToolCall("look", {"q": 1})), InvalidRequestError, "refuses"),
        (lambda: session().call({"name": "look"}), InvalidRequestError, "call: .* Give a ToolCall"),
    ],
)
def test_wrong_use_raises(use: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        use()


@pytest.mark.parametrize(
    ("calls", "field"),
    [
        (None, "calls"),
        (call("a"), "calls"),
        ([{"name": "look", "arguments": {"q": "a"}}], "calls"),
        ([call("a"), ToolCall("look", '{"q": "a"}', "c")], "arguments"),  # type: ignore[arg-type]
        ([ToolCall(5, {}, "c")], "name"),  # type: ignore[arg-type]
    ],
)
@in_virtual_time
async def test_a_turn_is_bound_once_and_only_to_calls_with_parsed_arguments(calls: Any, field: str) -> None:
    async with SpeculationSession([slow_tool(0.0, [])], drafting(call("a"))) as session:
        with session.turn([], []) as turn:
            await asyncio.sleep(1)
            with pytest.raises(InvalidRequestError, match="Give") as raised:
                turn.bind(calls)
            assert raised.value.field == field
            turn.bind([call("a")])  # the refused calls have not closed the turn
            with pytest.raises(InvalidRequestError, match=r"bound already\. Bind it once"):
                turn.bind([])
        await session.acall(call("a"))
        (predictor,) = session.report().predictors.values()
        assert (predictor.drafts, session.report().total.claims) == (1, 1)


def failing(q: str) -> Any:
    raise LookupError("secret")


@pytest.mark.parametrize(
    ("canonical", "problem"), [(failing, "failed with LookupError"), (lambda q: q.lower(), "returned str")]
)
def test_a_broken_canonical_function_is_named_and_only_costs_speculation(
    canonical: Any, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[str] = []
    predictor = ScriptedSpeculator([call("a")], [call("a")])
    turns = [call("a", "0")], [call("a", "1")]
    for turn in drive(slow_tool(0, runs, canonical=canonical), predictor, *turns).report.turns:
        assert f"the canonical function of look {problem}" in turn.problems[0]
        assert f"the canonical function of look {problem}" in turn.calls[0].reason
    assert runs == ["a", "a"]
    (warning,) = [record.getMessage() for record in caplog.records]
    assert problem in warning
    assert "secret" not in warning


def answers(message: Any) -> Any:
    async def model(messages: Any, tools: Any) -> Any:
        return message

    return model


NO_ARGUMENTS = {"id": "1", "type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (None, "model"),
        (lambda messages, tools: {"content": "a"}, "model"),
        (answers("text"), "answer"),
        (answers(None), "answer"),
        (answers({"tool_calls": [{"id": "1"}]}), "tool_calls"),
        (answers({"tool_calls": [NO_ARGUMENTS]}), "tool_calls"),
        (answers({"tool_calls": ["look"]}), "tool_calls"),
        (answers({"tool_calls": 3}), "tool_calls"),
    ],
)
@in_virtual_time
async def test_a_model_that_does_not_answer_with_a_message_is_refused(model: Any, field: str) -> None:
    async with session() as opened:
        with pytest.raises(InvalidRequestError, match="Give") as raised:
            await opened.ask(model, [], [])
    assert raised.value.field == field


class Meddler:
    """Changes everything that it is given, and what it has drafted."""

    async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
        meddle(request.messages), meddle(request.tools)
        draft = call("a")
        yield draft
        meddle(draft.arguments)

    def learn(self, request: DraftRequest, calls: Sequence[ToolCall]) -> None:
        meddle(request.messages)
        for made in calls:
            meddle(made.arguments)
        calls.clear()  # type: ignore[attr-defined]


def meddle(given: Any) -> None:
    for inner in list(given.values() if isinstance(given, dict) else given):
        if isinstance(inner, (dict, list)):
            meddle(inner)
    if isinstance(given, dict):
        given.clear()
    else:
        given.append({"role": "user", "content": "meddled"})


@pytest.mark.parametrize("ask", [False, True])
@in_virtual_time
async def test_a_predictor_cannot_change_the_request_or_the_answer(ask: bool) -> None:
    made = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"q": "a"}'}}
    schema = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [{**made, "id": "call_0"}]},
        {"role": "tool", "tool_call_id": "call_0", "content": "none"},
    ]
    asked: list[Any] = []

    async def model(messages: Any, tools: Any) -> Any:
        await asyncio.sleep(5)
        asked.append(copy.deepcopy([messages, tools]))
        return {"role": "assistant", "tool_calls": [made]}

    messages, tools, bound = copy.deepcopy(history), [copy.deepcopy(schema)], [call("a")]
    async with SpeculationSession([slow_tool(1, [])], [Meddler(), Meddler()]) as session:
        if ask:
            assert (await session.ask(model, messages, tools))["tool_calls"] == [made]
        else:
            with session.turn(messages, tools) as turn:
                await model(messages, tools)
                turn.bind(bound)
        assert (messages, tools, bound) == (history, [schema], [call("a")])
        await session.acall(bound[0])
    assert session.report().total.claims == 1
    assert asked == [[history, [schema]]]


@in_virtual_time
async def test_a_result_belongs_to_the_call_as_it_was_drafted() -> None:
    finished: list[ToolCall] = []

    @speculable
    async def look(q: Any) -> str:
        q.append("changed by the tool")
        return "found"

    class Hasty:
        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            draft = ToolCall("look", {"q": ["a"]})
            yield draft
            meddle(draft.arguments)

    async with SpeculationSession([look], Hasty()) as session:
        with session.turn([], []) as turn:
            turn.on_finished(lambda result: finished.append(result.call))
            await asyncio.sleep(5)
            turn.bind([])
    assert finished == [ToolCall("look", {"q": ["a"]})]


@in_virtual_time
async def test_a_predictor_reads_the_history_as_it_was_when_the_turn_began() -> None:
    predictor = drafting(call("a"))
    messages = [{"role": "user", "content": "hi"}]
    async with SpeculationSession([slow_tool(1, [])], predictor) as session:
        with session.turn(messages, []):
            messages.append({"role": "assistant", "content": "later"})
            await asyncio.sleep(5)
    assert [len(request.messages) for request in predictor.requests] == [1]


def test_a_wasted_speculation_takes_no_speculation_of_the_model() -> None:
    runs: list[str] = []
    ran, bound, nested = threading.Event(), threading.Event(), threading.Event()

    @speculable
    def inner(q: str) -> str:
        runs.append(q)
        ran.set()
        return f"found {q}"

    @speculable
    def outer(q: str) -> str:
        assert bound.wait(PATIENCE_S)
        result = inner(q)
        nested.set()
        return result

    made = ToolCall("inner", {"q": "a"})
    drafts = ScriptedSpeculator([ToolCall("outer", {"q": "a"}), made])
    with SpeculationSession([inner, outer], [drafts]) as session:
        with session.turn([], []) as turn:
            assert ran.wait(PATIENCE_S)
            turn.bind([made])
        bound.set()
        assert nested.wait(PATIENCE_S)
        assert runs == ["a", "a"]
        assert session.call(made) == "found a"
    assert runs == ["a", "a"]
    assert session.report().tools["inner"].claims == 1
