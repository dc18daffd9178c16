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

from agentrt import DraftRequest, SpeculationSession, ToolCall, speculable
from agentrt.drafts import DraftCost
from agentrt.reports.events import (
    CallClaimed,
    CallMissed,
    DraftArrived,
    PredictorCharged,
    SpeculationStarted,
    SubmissionRefused,
    TurnAnswered,
    TurnStarted,
)
from agentrt.reports.tracing import SpanObserver
from agentrt.testing import ScriptedSpeculator
from agentrt.turns.turn import Turn


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def test_a_session_leaves_spans_of_its_turns_and_speculations(exporter: InMemorySpanExporter) -> None:
    both_run = asyncio.Event()

    @speculable
    async def look(q: str) -> str:
        if q == "wrong":
            both_run.set()
        return f"secret {q}"

    async def main() -> None:
        predictor = ScriptedSpeculator([ToolCall("look", {"q": "private"}), ToolCall("look", {"q": "wrong"})])
        async with SpeculationSession([look], [predictor]) as session:
            with trace.get_tracer("user").start_as_current_span("the user's own"):
                with session.turn([], []) as turn:
                    await both_run.wait()
                    turn.bind([ToolCall("look", {"q": "private"}, "id1")])
                await session.acall(ToolCall("look", {"q": "private"}, "id1"))

    asyncio.run(main())
    spans: dict[str, list[Any]] = {}
    for span in exporter.get_finished_spans():
        spans.setdefault(span.name, []).append(span)
    (users,), (turn,), runs = spans["the user's own"], spans["speculate"], spans["execute_tool look"]
    assert turn.parent.span_id == users.context.span_id
    assert {run.parent.span_id for run in runs} == {turn.context.span_id}
    assert sorted(run.attributes["agentrt.speculation"] for run in runs) == ["claimed", "wasted"]
    for run in runs:
        assert run.attributes["gen_ai.operation.name"] == "execute_tool"
        assert run.attributes["gen_ai.tool.name"] == "look"
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
            ran.set()
        return q

    class Predictor:
        async def drafts(self, request: DraftRequest) -> AsyncIterator[ToolCall]:
            with trace.get_tracer("client").start_as_current_span("chat draft"):
                pass
            yield ToolCall("look", {"q": "a"})

    def run(turn: Turn) -> None:
        with trace.get_tracer("client").start_as_current_span("chat main"):
            assert ran.wait(20)
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
    spans = {span.name: span for span in exporter.get_finished_spans()}
    parents = {name: spans[name].parent.span_id for name in ("chat draft", "inside the tool", "chat main")}
    speculate, user = spans["speculate"].context.span_id, spans["user"].context.span_id
    assert parents == {"chat draft": speculate, "inside the tool": speculate, "chat main": user}


def test_the_cost_of_a_predictor_is_one_event_of_the_turn(exporter: InMemorySpanExporter) -> None:
    observer = SpanObserver()
    for event in (
        TurnStarted(1),
        PredictorCharged(1, "p", DraftCost(100, 0)),
        PredictorCharged(1, "p", DraftCost(-10, 7)),
        TurnAnswered(1, 1.0, ()),
    ):
        observer.on_event(event)
    (span,) = exporter.get_finished_spans()
    ((_, attributes),) = [(event.name, dict(event.attributes or {})) for event in span.events]
    assert attributes == {"agentrt.predictor": "p", "input_tokens": 90, "output_tokens": 7}


def test_what_comes_after_the_answer_is_a_span_below_the_turn_s(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    observer = SpanObserver()
    for event in (
        TurnStarted(1),
        SubmissionRefused(1, "look", "APIConnectionError"),
        TurnAnswered(1, 1.0, ("look",)),
        SubmissionRefused(1, "look", "NotFoundError 404"),
        CallMissed(1, "look", 1.0, "not predicted"),
    ):
        observer.on_event(event)
    spans = exporter.get_finished_spans()
    (turn,) = [span for span in spans if span.name == "speculate"]
    below = [(span.name, dict(span.attributes or {})) for span in spans if span is not turn]
    assert below == [
        (name, {"gen_ai.tool.name": "look", "agentrt.reason": reason})
        for name, reason in (
            ("agentrt.submission_refused", "APIConnectionError"),
            ("agentrt.submission_refused", "NotFoundError 404"),
            ("agentrt.miss", "not predicted"),
        )
    ]
    assert {span.parent.span_id for span in spans if span.parent} == {turn.context.span_id}
    assert caplog.records == []


def test_events_of_turns_long_gone_are_no_problem(exporter: InMemorySpanExporter) -> None:
    observer = SpanObserver()
    for turn in range(1, 1000):
        observer.on_event(TurnStarted(turn))
    for event in (
        DraftArrived(1, "p", "look", 0.1),
        SpeculationStarted(1, "look", "p"),
        TurnAnswered(1, 1.0, ()),
        CallClaimed(1, "look", 1.0, 0.0, 0.1, "p"),
        CallClaimed(999, "look", 1.0, 0.0, 0.1, "p"),  # whose start was not seen
    ):
        observer.on_event(event)
    assert [span.name for span in exporter.get_finished_spans()] == ["execute_tool look"]
    assert len(observer._turns) == 256


def test_without_opentelemetry_nothing_is_traced() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from agentrt.reports.tracing import tracing_observers\n"
        "print(tracing_observers())"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "()"
