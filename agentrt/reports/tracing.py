"""OpenTelemetry spans of speculation, by the semantic conventions for generative AI."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from ..drafts import DraftCost
from .events import (
    CallClaimed,
    CallMissed,
    DraftArrived,
    PredictorCharged,
    SpeculationEvent,
    SpeculationStarted,
    SpeculationWasted,
    SubmissionRefused,
    TurnAnswered,
    TurnStarted,
)

_MAX_TURNS = 256


def tracing_observers() -> tuple[SpanObserver, ...]:
    """Return the observer that makes spans, or none where OpenTelemetry is not installed.

    Spans go where the process has configured OpenTelemetry to send them, and nowhere if it has not.
    """
    try:
        import opentelemetry.trace  # noqa: F401
    except ModuleNotFoundError:
        return ()
    return (SpanObserver(),)


@dataclass(slots=True)
class _OpenTurn:
    """A turn's span, and the start times of its speculations (tool -> nanoseconds, ascending)."""

    span: Any
    started_ns: int
    runs: dict[str, list[int]] = field(default_factory=dict)
    drafts: int = 0
    costs: dict[str, DraftCost] = field(default_factory=dict)


class SpanObserver:
    """Makes a span of each turn and, below it, one of each speculation.

    The turn's span is named ``speculate``; a speculation is an ``execute_tool {name}`` span with the
    conventions' ``gen_ai.*`` attributes and its outcome in ``agentrt.*`` attributes. The framework traces
    real runs, so no call appears twice: a miss is a span without length, ``agentrt.miss``, as is a result
    that an engine's tool cache did not take, ``agentrt.submission_refused``. Like events, spans carry no
    arguments and no results. What other instrumentation traces of drafts and speculative runs is below the
    turn's span, not the user's.
    """

    def __init__(self) -> None:
        """Use the process's tracer, whether it is configured now or later."""
        from opentelemetry import context, trace

        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer("agentrt")
        self._lock = threading.Lock()
        self._turns: OrderedDict[int, _OpenTurn] = OrderedDict()

    def on_event(self, event: SpeculationEvent) -> None:
        """Begin, describe or end a span."""
        if isinstance(event, TurnStarted):
            self._begin(event.turn)
            return
        with self._lock:
            turn = self._turns.get(event.turn)
        if turn is None:
            return
        match event:
            case DraftArrived():
                turn.drafts += 1
            case PredictorCharged(predictor=predictor, cost=cost):
                turn.costs[predictor] = turn.costs.get(predictor, DraftCost()) + cost
            case SpeculationStarted():
                turn.runs.setdefault(event.tool, []).append(time.time_ns())
            case TurnAnswered():
                for predictor, cost in turn.costs.items():
                    tokens = {"input_tokens": cost.input_tokens, "output_tokens": cost.output_tokens}
                    turn.span.add_event("agentrt.draft", {"agentrt.predictor": predictor, **tokens})
                turn.span.set_attribute("agentrt.drafts", turn.drafts)
                turn.span.set_attribute("agentrt.tool_calls", event.tools)
                turn.span.end()
            case CallClaimed():
                self._run(turn, event.tool, event.predictor, event.tool_s, "claimed", event.saved_s)
            case SpeculationWasted():
                self._run(turn, event.tool, event.predictor, event.ran_s, "wasted", 0.0)
            case CallMissed():
                self._mark(turn, "agentrt.miss", event.tool, event.reason)
            case SubmissionRefused():
                self._mark(turn, "agentrt.submission_refused", event.tool, event.reason)

    def enter(self, number: int) -> None:
        """Make the span of turn ``number`` the current one for the rest of this context."""
        with self._lock:
            turn = self._turns.get(number)
        if turn is not None:
            self._context.attach(self._trace.set_span_in_context(turn.span))

    def _begin(self, number: int) -> None:
        now = time.time_ns()
        span = self._tracer.start_span("speculate", start_time=now)
        if not span.is_recording():  # the process does not trace
            return
        with self._lock:
            self._turns[number] = _OpenTurn(span, now)
            if len(self._turns) > _MAX_TURNS:  # speculations are claimed soon after their turn, or never
                self._turns.popitem(last=False)

    def _mark(self, turn: _OpenTurn, name: str, tool: str, reason: str) -> None:
        """Make a span without length: the turn's own may have ended, and an ended span takes no events."""
        now = time.time_ns()
        span = self._tracer.start_span(
            name,
            context=self._trace.set_span_in_context(turn.span),
            start_time=now,
            attributes={"gen_ai.tool.name": tool, "agentrt.reason": reason},
        )
        span.end(end_time=now)

    def _run(
        self, turn: _OpenTurn, tool: str, predictor: str, ran_s: float, outcome: str, saved_s: float
    ) -> None:
        began = turn.runs.get(tool)
        started_ns = began.pop(0) if began else turn.started_ns
        span = self._tracer.start_span(
            f"execute_tool {tool}",
            context=self._trace.set_span_in_context(turn.span),
            start_time=started_ns,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.type": "function",
                "agentrt.speculation": outcome,
                "agentrt.predictor": predictor,
                "agentrt.saved_s": saved_s,
            },
        )
        span.end(end_time=started_ns + int(1e9 * ran_s))
