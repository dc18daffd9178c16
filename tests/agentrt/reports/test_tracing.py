"""Spans of speculations, exported only where the user has configured it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentrt import SpeculationSession, ToolCall, speculable
from agentrt.reports.events import CallClaimed, DraftArrived, SpeculationStarted, TurnAnswered, TurnStarted
from agentrt.reports.tracing import SpanObserver
from agentrt.testing import ScriptedSpeculator


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
