"""Spans of speculations, exported only where the user has configured it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.drafts import DraftCost
from agentrt.reports import events as ev
from agentrt.reports.tracing import SpanObserver
from agentrt.testing import ScriptedSpeculator
from agentrt.turns.turn import Turn
from tests.agentrt.loops import on_a_loop
from tests.agentrt.turns.sessions import drive
from tests.patience import PATIENCE_S


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def by_name(exporter: InMemorySpanExporter) -> dict[str, Any]:
    return {span.name: span for span in exporter.get_finished_spans()}


def links(span: Any) -> list[int]:
    return [link.context.span_id for link in span.links]


@on_a_loop
async def test_a_session_leaves_spans_of_its_turns_and_speculations(exporter: InMemorySpanExporter) -> None:
    both_run = asyncio.Event()

    @speculable
    async def look(q: str) -> str:
        if q == "wrong":
            both_run.set()
        return f"secret {q}"

    predictor = ScriptedSpeculator([ToolCall("look", {"q": "private"}), ToolCall("look", {"q": "wrong"})])
    async with SpeculationSession([look], [predictor]) as session:
        with trace.get_tracer("user").start_as_current_span("the user's own"):
            with session.turn([], []) as turn:
                await both_run.wait()
                turn.bind([ToolCall("look", {"q": "private"}, "id1")])
            await session.acall(ToolCall("look", {"q": "private"}, "id1"))
    spans: dict[str, list[Any]] = {}
    for span in exporter.get_finished_spans():
        spans.setdefault(span.name, []).append(span)
    (users,), (turn,), runs = spans["the user's own"], spans["speculate"], spans["execute_tool look"]
    assert turn.parent.span_id == users.context.span_id
    early = [run for run in runs if run.parent.span_id == turn.context.span_id]
    (call,) = [run for run in runs if run not in early]
    assert call.parent.span_id == users.context.span_id
    assert call.attributes["gen_ai.tool.call.id"] == "id1"
    assert sorted(run.attributes["agentrt.speculation"] for run in early) == ["claimed", "wasted"]
    (claimed,) = [run for run in early if run.attributes["agentrt.speculation"] == "claimed"]
    assert links(call) == [claimed.context.span_id]
    assert {run: links(run) for run in early if run.links} == {claimed: [call.context.span_id]}
    assert call.attributes["agentrt.speculation"] == "claimed"
    for run in runs:
        assert run.attributes["gen_ai.operation.name"] == "execute_tool"
        assert run.attributes["gen_ai.tool.name"] == "look"
    for run in early:
        assert run.attributes["agentrt.predictor"] == "ScriptedSpeculator"
        assert turn.start_time <= run.start_time <= run.end_time
    assert turn.attributes["agentrt.drafts"] == 2
    assert turn.attributes["agentrt.tool_calls"] == ("look",)
    exported = " ".join(span.to_json() for each in spans.values() for span in each)
    assert not any(word in exported for word in ("private", 'wrong"', "secret"))


@pytest.mark.parametrize("is_async", [False, True])
def test_what_drafts_and_speculations_trace_is_below_the_turn(
    exporter: InMemorySpanExporter, is_async: bool
) -> None:
    """An instrumented client puts the tokens of its request on a span below the current one."""
    ran = threading.Event()

    @speculable
    def look(q: str) -> str:
        with trace.get_tracer("client").start_as_current_span("inside the tool"):
            pass
        ran.set()  # its span has ended
        return q

    class Predictor:
        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            with trace.get_tracer("client").start_as_current_span("chat draft"):
                pass
            yield ToolCall("look", {"q": "a"})

    def run(turn: Turn) -> None:
        with trace.get_tracer("client").start_as_current_span("chat main"):
            assert ran.wait(PATIENCE_S)
        turn.bind([])

    async def arun() -> None:
        async with SpeculationSession([look], [Predictor()]) as session:
            with trace.get_tracer("user").start_as_current_span("user"), session.turn([], []) as turn:
                await asyncio.to_thread(run, turn)

    if is_async:
        asyncio.run(arun())
    else:
        with (
            SpeculationSession([look], [Predictor()]) as session,
            trace.get_tracer("user").start_as_current_span("user"),
            session.turn([], []) as turn,
        ):
            run(turn)
    spans = by_name(exporter)
    parents = {name: spans[name].parent.span_id for name in ("chat draft", "inside the tool", "chat main")}
    speculate, user = spans["speculate"].context.span_id, spans["user"].context.span_id
    run = spans["execute_tool look"].context.span_id
    assert parents == {"chat draft": speculate, "inside the tool": run, "chat main": user}


def noticed() -> tuple[Any, threading.Event]:
    """Return a tool, and what is set once it has run."""
    ran = threading.Event()

    @speculable
    def look(q: str) -> str:
        ran.set()
        return q

    return look, ran


def observed(*events: ev.SpeculationEvent) -> SpanObserver:
    """Return an observer that has seen these events."""
    observer = SpanObserver()
    for event in events:
        observer.on_event(event)
    return observer


CHARGED = [ev.PredictorCharged(1, "p", DraftCost(100, 0)), ev.PredictorCharged(1, "p", DraftCost(-10, 7))]


@pytest.mark.parametrize("late", [0, 1])
def test_the_cost_of_a_predictor_is_an_event_of_the_turn_or_a_span_below_it_after_the_answer(
    exporter: InMemorySpanExporter, late: int
) -> None:
    before = CHARGED[: len(CHARGED) - late]
    observed(ev.TurnStarted(1), *before, ev.TurnAnswered(1, 1.0, ()), *CHARGED[len(before) :])
    turn, *later = exporter.get_finished_spans()
    assert [(span.name, span.parent and span.parent.span_id) for span in later] == [
        ("agentrt.draft", turn.context.span_id)
    ] * late
    noted: list[dict[str, Any]] = [dict(each.attributes or {}) for each in (*turn.events, *later)]
    assert len(noted) == 1 + late
    assert {each["agentrt.predictor"] for each in noted} == {"p"}
    assert sum(each["agentrt.input_tokens"] for each in noted) == 90
    assert sum(each["agentrt.output_tokens"] for each in noted) == 7


def test_what_comes_after_the_answer_is_a_span_below_the_turn_s(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    observed(
        ev.TurnStarted(1),
        ev.SubmissionRefused(1, "look", "APIConnectionError"),
        ev.TurnAnswered(1, 1.0, ("look",)),
        ev.SubmissionRefused(1, "look", "NotFoundError 404"),
    )
    spans = exporter.get_finished_spans()
    (turn,) = [span for span in spans if span.name == "speculate"]
    below = [(span.name, dict(span.attributes or {})) for span in spans if span is not turn]
    assert below == [
        ("agentrt.submission_refused", {"gen_ai.tool.name": "look", "agentrt.reason": reason})
        for reason in ("APIConnectionError", "NotFoundError 404")
    ]
    assert {span.parent.span_id for span in spans if span.parent} == {turn.context.span_id}
    assert caplog.records == []


def test_events_of_turns_long_gone_are_no_problem(exporter: InMemorySpanExporter) -> None:
    observer = observed(
        *map(ev.TurnStarted, range(1, 1000)),
        ev.DraftArrived(1, "p", "look", 0.1),
        ev.SpeculationStarted(1, "look", "p", run=1),
        ev.TurnAnswered(1, 1.0, ()),
        ev.CallClaimed(1, "look", 1.0, 0.0, 0.1, "p", run=1),
        ev.CallClaimed(999, "look", 1.0, 0.0, 0.1, "p", run=2),  # whose start was not seen
        ev.SpeculationStarted(999, "look", "p", run=3),
    )
    with observer.calling(1, "look", "id1", 1), observer.running(1, 1):
        pass
    assert exporter.get_finished_spans() == ()
    assert len(observer._turns) == 256
    for turn in range(1000, 1257):
        observer.on_event(ev.TurnStarted(turn))
    assert [span.name for span in exporter.get_finished_spans()] == ["execute_tool look"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_miss_is_the_call_s_own_run(exporter: InMemorySpanExporter, is_async: bool) -> None:
    """Without a span of the user's, the call is below its turn's; what it traces is below the call."""

    @speculable
    def look(q: str) -> str:
        with trace.get_tracer("client").start_as_current_span("inside the tool"):
            raise ValueError(f"secret {q}")

    call = ToolCall("look", {"q": "private"}, "id1")

    def blocking() -> None:
        with SpeculationSession([look], []) as session:
            with session.turn([], []) as turn:
                turn.bind([call])
            session.call(call)

    with pytest.raises(ValueError, match="secret"):
        drive(look, [], [call], generation_s=0) if is_async else blocking()
    spans = by_name(exporter)
    missed = spans["execute_tool look"]
    assert missed.parent.span_id == spans["speculate"].context.span_id  # type: ignore[union-attr]
    assert spans["inside the tool"].parent.span_id == missed.context.span_id  # type: ignore[union-attr]
    assert missed.links == ()
    assert missed.status.status_code is StatusCode.ERROR
    described = dict(missed.attributes or {})
    assert (described["agentrt.speculation"], described["error.type"]) == ("missed", "ValueError")
    assert "secret" not in missed.to_json()


def test_a_turn_without_an_answer_ends_its_span(exporter: InMemorySpanExporter) -> None:
    """As that of a request that failed, or was sent ahead in vain: its runs are below a span that exists."""
    look, ran = noticed()
    predictor = ScriptedSpeculator([ToolCall("look", {"q": "a"})])
    with SpeculationSession([look], [predictor]) as session, session.turn([], []):
        assert ran.wait(PATIENCE_S)
    spans = by_name(exporter)
    turn = spans["speculate"]
    assert spans["execute_tool look"].parent.span_id == turn.context.span_id  # type: ignore[union-attr]
    assert dict(turn.attributes or {}) == {
        "agentrt.drafts": 1,
        "agentrt.reason": "the model gave no answer",
    }


def test_what_an_engine_answers_within_a_call_is_not_the_call_s(exporter: InMemorySpanExporter) -> None:
    """A tool may be an agent of its own."""
    outer, inner = (
        observed(ev.TurnStarted(1)),
        observed(ev.TurnStarted(1), ev.SpeculationStarted(1, "look", "p", run=1)),
    )
    with outer.calling(1, "ask", "id1", None):
        inner.on_event(ev.CallClaimed(1, "look", 1.0, 0.0, 0.1, "p", run=1))
    outcomes = {
        span.name: (span.attributes or {}).get("agentrt.speculation")
        for span in exporter.get_finished_spans()
    }
    assert outcomes == {"execute_tool look": "answered", "execute_tool ask": None}


def test_a_call_that_the_framework_traces_is_no_second_span(exporter: InMemorySpanExporter) -> None:
    look, ran = noticed()
    call = ToolCall("look", {"q": "a"}, "id1")
    with SpeculationSession([look], [ScriptedSpeculator([call])]) as session:
        with session.turn([], []) as turn:
            assert ran.wait(PATIENCE_S)
            turn.bind([call])
        with trace.get_tracer("framework").start_as_current_span("execute_tool look"):
            session.call(call)
    runs = [span for span in exporter.get_finished_spans() if span.name == "execute_tool look"]
    (early,) = [span for span in runs if "agentrt.predictor" in (span.attributes or {})]
    (of_framework,) = [span for span in runs if span is not early]
    assert (links(of_framework), links(early)) == ([early.context.span_id], [of_framework.context.span_id])


def test_without_opentelemetry_nothing_is_traced() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from agentrt.reports.tracing import tracing_observer\n"
        "print(tracing_observer())"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "None"
