"""OpenTelemetry spans of speculation, by the semantic conventions for generative AI."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..drafts import DraftCost
from ..otel import api
from . import events
from .events import SpeculationEvent

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_MAX_TURNS = 256


def tracing_observer() -> SpanObserver | None:
    """Return the observer that makes spans; None where OpenTelemetry is not installed.

    Spans go where the process has configured OpenTelemetry to send them, and nowhere if it has not.
    """
    return SpanObserver() if api.installed() else None


@dataclass(slots=True)
class _OpenTurn:
    """A turn's span, and its speculative runs without an outcome, by their numbers."""

    span: Span
    runs: dict[int, tuple[Span, int]] = field(default_factory=dict)
    """Each with the time of its start in nanoseconds."""
    drafts: int = 0
    costs: dict[str, DraftCost] = field(default_factory=dict)
    ended: bool = False


_call: ContextVar[tuple[_OpenTurn, Span] | None] = ContextVar("agentrt_call_span", default=None)
"""The turn and the span of the call that this context answers."""


class SpanObserver:
    """Makes a span of each turn and of each speculative run, and one of each call that reaches its tool.

    The turn's span is named ``speculate``. A run below it and a call are ``execute_tool {name}`` spans with
    the conventions' ``gen_ai.*`` attributes and their outcome in ``agentrt.*`` attributes; a call and the run
    that was made ahead for it are linked to each other. A call is below the caller's span, and without one
    below its turn's. Where a framework has made an ``execute_tool {name}`` span of the call, that one is
    described and linked, so that no call appears twice.

    A result that an engine's tool cache did not take is a span without length,
    ``agentrt.submission_refused``. Like events, spans carry no arguments and no results. What other
    instrumentation traces of drafts and speculative runs is below the turn's span and the run's, not the
    user's.
    """

    def __init__(self) -> None:
        """Use the process's tracer, configured now or later. OpenTelemetry must be installed."""
        from opentelemetry import context, trace

        self._context = context
        self._trace = trace
        self._tracer = api.tracer()
        self._failed = api.failed()
        self._lock = threading.Lock()
        self._turns: OrderedDict[int, _OpenTurn] = OrderedDict()

    def on_event(self, event: SpeculationEvent) -> None:
        """Begin, describe or end a span."""
        if isinstance(event, events.TurnStarted):
            self._begin(event.turn)
            return
        turn = self._turn(event.turn)
        if turn is None:
            return
        match event:
            case events.DraftArrived():
                turn.drafts += 1
            case events.PredictorCharged(predictor=predictor, cost=cost):
                if turn.ended:  # a predictor that was stopped by the answer is charged last
                    self._mark(turn, "agentrt.draft", _spent(predictor, cost))
                else:
                    turn.costs[predictor] = turn.costs.get(predictor, DraftCost()) + cost
            case events.SpeculationStarted():
                self._begin_run(turn, event)
            case events.TurnAnswered():
                self._end_turn(turn, {"agentrt.tool_calls": event.tools})
            case events.CallClaimed():
                # Calls that the engine answers from its tool cache reach no tool.
                call = _call_of(turn)
                kind = "answered" if call is None else "claimed"
                outcome: dict[str, Any] = {"agentrt.speculation": kind, "agentrt.saved_s": event.saved_s}
                if call is not None:
                    call.set_attributes(outcome)
                self._end_run(turn, event.run, event.tool_s, outcome)
            case events.SpeculationWasted():
                reason = {"agentrt.reason": event.reason}
                self._end_run(turn, event.run, event.ran_s, {"agentrt.speculation": "wasted"} | reason)
            case events.CallMissed():
                call = _call_of(turn)
                if call is not None:
                    call.set_attributes({"agentrt.speculation": "missed", "agentrt.reason": event.reason})
            case events.SubmissionRefused():
                refused = {"gen_ai.tool.name": event.tool, "agentrt.reason": event.reason}
                self._mark(turn, "agentrt.submission_refused", refused)

    def leave(self, number: int, reason: str) -> None:
        """End the span of turn ``number``, unless it was answered; ``reason`` says why it was not."""
        turn = self._turn(number)
        if turn is not None:
            self._end_turn(turn, {"agentrt.reason": reason})

    def enter(self, number: int) -> None:
        """Make the span of turn ``number`` the current one for the rest of this context."""
        turn = self._turn(number)
        if turn is not None:
            self._context.attach(self._below(turn.span))

    @contextmanager
    def running(self, number: int, run: int) -> Iterator[None]:
        """Make the span of a speculative run of turn ``number`` the current one in the block."""
        turn = self._turn(number)
        early, _ = (None, 0) if turn is None else turn.runs.get(run, (None, 0))
        with nullcontext() if early is None else api.current(early):
            yield

    @contextmanager
    def calling(self, number: int, tool: str, call_id: str | None, run: int | None) -> Iterator[None]:
        """Make a span of a call that has reached ``tool``, which the block answers from ``run`` if it can."""
        turn = self._turn(number)
        if turn is None:
            yield
            return
        early, _ = turn.runs.get(run or 0, (None, 0))
        of_caller = self._trace.get_current_span()
        traced_already = getattr(of_caller, "name", None) == f"execute_tool {tool}"
        if traced_already:
            span = of_caller
        else:
            known = of_caller.get_span_context().is_valid
            span = self._tool_span(tool, None if known else turn.span)
        if call_id is not None:
            span.set_attribute("gen_ai.tool.call.id", call_id)
        if early is not None:
            span.add_link(early.get_span_context())
            early.add_link(span.get_span_context())
        token = _call.set((turn, span))
        try:
            with api.current(span):
                yield
        except BaseException as error:
            if not traced_already:
                span.set_attributes(api.failure(error))
                span.set_status(self._failed)
            raise
        finally:
            _call.reset(token)
            if not traced_already:
                span.end()

    def _turn(self, number: int) -> _OpenTurn | None:
        with self._lock:
            return self._turns.get(number)

    def _begin(self, number: int) -> None:
        span = self._tracer.start_span("speculate")
        if not span.is_recording():  # the process does not trace
            return
        with self._lock:
            self._turns[number] = _OpenTurn(span)
            oldest = self._turns.popitem(last=False)[1] if len(self._turns) > _MAX_TURNS else None
        if oldest is not None:  # speculations are claimed soon after their turn, or never
            for run, _ in list(oldest.runs.values()):
                run.end()

    def _end_turn(self, turn: _OpenTurn, outcome: dict[str, Any]) -> None:
        with self._lock:
            ended, turn.ended = turn.ended, True
        if ended:
            return
        for predictor, cost in turn.costs.items():
            turn.span.add_event("agentrt.draft", _spent(predictor, cost))
        turn.span.set_attributes({"agentrt.drafts": turn.drafts} | outcome)
        turn.span.end()

    def _begin_run(self, turn: _OpenTurn, event: events.SpeculationStarted) -> None:
        started_ns = time.time_ns()
        span = self._tool_span(event.tool, turn.span, started_ns)
        span.set_attribute("agentrt.predictor", event.predictor)
        turn.runs[event.run] = span, started_ns

    def _end_run(self, turn: _OpenTurn, number: int, ran_s: float, outcome: dict[str, Any]) -> None:
        span, started_ns = turn.runs.pop(number, (None, 0))
        if span is not None:
            span.set_attributes(outcome)
            span.end(end_time=started_ns + int(1e9 * ran_s))

    def _tool_span(self, tool: str, parent: Span | None, started_ns: int | None = None) -> Span:
        """Begin the span of an execution of ``tool``, below the current span if ``parent`` is None."""
        return self._tracer.start_span(
            f"execute_tool {tool}",
            context=None if parent is None else self._below(parent),
            start_time=started_ns,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.type": "function",
            },
        )

    def _mark(self, turn: _OpenTurn, name: str, attributes: dict[str, Any]) -> None:
        """Make a span without length: the turn's own may have ended, and an ended span takes no events."""
        now = time.time_ns()
        span = self._tracer.start_span(
            name, context=self._below(turn.span), start_time=now, attributes=attributes
        )
        span.end(end_time=now)

    def _below(self, span: Span) -> Any:
        return self._trace.set_span_in_context(span)


def _spent(predictor: str, cost: DraftCost) -> dict[str, Any]:
    return {
        "agentrt.predictor": predictor,
        "agentrt.input_tokens": cost.input_tokens,
        "agentrt.output_tokens": cost.output_tokens,
    }


def _call_of(turn: _OpenTurn) -> Span | None:
    """Return the span of the call of ``turn`` that this context answers; another turn's may be around it."""
    call = _call.get()
    return call[1] if call is not None and call[0] is turn else None
