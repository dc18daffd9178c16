"""Builds the report from the events of speculation."""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..concurrency.contained import contained
from ..perfmodel import saved_seconds
from . import events
from .events import SpeculationEvent, SpeculationObserver
from .report import (
    AheadReport,
    CallReport,
    PredictorReport,
    RunReport,
    SpeculationReport,
    ToolReport,
    TurnReport,
)

_MAX_PROBLEMS = 16  # of one turn, so that an endless predictor cannot fill the memory
_MAX_DRAFT_TIMES = 64  # of one turn, for the same reason
_KEPT = (
    *(events.DraftArrived, events.TurnAnswered, events.SpeculationStarted, events.SpeculationWasted),
    *(events.CallClaimed, events.CallMissed, events.AheadKept, events.AheadWasted),
)
"""The events that the report of a turn is made of."""
E = TypeVar("E", bound=SpeculationEvent)
logger = logging.getLogger("agentrt")


@dataclass(slots=True)
class _Turn:
    """What is known of one turn; its :class:`TurnReport` is made when the report is asked for.

    Moments are those of agentrt's clock.
    """

    number: int
    started_at: float
    drafts: int = 0
    first_draft_s: float | None = None
    events: list[SpeculationEvent] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def enter(self, event: SpeculationEvent) -> None:
        """Enter an event of this turn."""
        if isinstance(event, events.DraftArrived):
            self.drafts += 1
            self.first_draft_s = event.after_s if self.first_draft_s is None else self.first_draft_s
        elif isinstance(event, events.AheadStarted):
            self.started_at = event.at_s  # the turn has begun with the drafts that came before its request
        if isinstance(event, _KEPT) and (
            not isinstance(event, events.DraftArrived) or self.drafts <= _MAX_DRAFT_TIMES
        ):
            self.events.append(event)
        problem = _problem(event)
        if problem is not None and len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem)

    @property
    def generation_s(self) -> float | None:
        """How long the model took to answer; None if it has not."""
        answers = self._of(events.TurnAnswered)
        return answers[-1].generation_s if answers else None

    def _of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def report(self, zero: float) -> TurnReport:
        """Return the report of the turn, with moments in seconds since ``zero``."""
        generation_s, wasted = self.generation_s, self._of(events.SpeculationWasted)
        calls = [each for each in self.events if isinstance(each, (events.CallClaimed, events.CallMissed))]
        started_at = {event.run: event.at_s for event in self._of(events.SpeculationStarted)}
        runs = [
            _run_report(each, started_at[each.run] - zero)
            for each in self.events
            if isinstance(each, (events.CallClaimed, events.SpeculationWasted)) and each.run in started_at
        ]
        return TurnReport(
            turn=self.number,
            started_s=self.started_at - zero,
            generation_s=generation_s,
            drafts=self.drafts,
            first_draft_s=self.first_draft_s,
            drafted_s=tuple(draft.at_s - zero for draft in self._of(events.DraftArrived)),
            tools=tuple(tool for answer in self._of(events.TurnAnswered)[-1:] for tool in answer.tools),
            calls=tuple(_call_report(call, generation_s, zero) for call in calls),
            runs=tuple(runs),
            wasted=len(wasted),
            wasted_s=sum(event.ran_s for event in self._of(events.AheadWasted)),
            ahead_s=sum(event.saved_s for event in self._of(events.AheadKept)),
            problems=tuple(self.problems),
        )


class Reporter:
    """Builds the report from events and notifies observers. Thread-safe.

    Events only count; the report is made when it is asked for.
    """

    def __init__(self, *, turns_kept: int, observers: Sequence[SpeculationObserver] = ()) -> None:
        """``turns_kept`` is how many turns the report lists; the totals cover all."""
        self._observers = tuple(observers)
        self._lock = threading.Lock()
        self._turns: deque[_Turn] = deque(maxlen=turns_kept)
        self._tools: dict[str, dict[str, float]] = {}
        self._stopped: dict[str, str] = {}
        self._predictors: dict[str, dict[str, float]] = {}
        self._ahead: dict[str, float] = {}
        self._refusals: Counter[str] = Counter()
        self._last_turn = 0
        self._zero: float | None = None
        """The moment of the first event."""

    def next_turn(self) -> int:
        """Return the number of a new turn, and note its start."""
        with self._lock:
            self._last_turn += 1
            turn = self._last_turn
        self.note(events.TurnStarted(turn))
        return turn

    def note(self, event: SpeculationEvent) -> None:
        """Enter ``event`` into the report and notify the observers."""
        with self._lock:
            self._enter(event)
        for observer in self._observers:
            with contained(functools.partial(_log_failure, event)):
                observer.on_event(event)

    def report(self) -> SpeculationReport:
        """Return the current report."""
        with self._lock:
            return SpeculationReport(
                turns=tuple(turn.report(self._zero or 0.0) for turn in self._turns),
                tools={
                    name: ToolReport.model_validate({**counts, "stopped": self._stopped.get(name, "")})
                    for name, counts in self._tools.items()
                },
                total=ToolReport.model_validate(_sum(self._tools.values())),
                predictors={
                    name: PredictorReport.model_validate(counts) for name, counts in self._predictors.items()
                },
                ahead=AheadReport.model_validate(self._ahead),
                refusals=dict(self._refusals),
            )

    def _enter(self, event: SpeculationEvent) -> None:
        if self._zero is None:
            self._zero = event.at_s
        if isinstance(event, events.TurnStarted):
            self._turns.append(_Turn(event.turn, event.at_s))
            return
        turn = self._turn(event.turn)
        if turn is not None:
            turn.enter(event)
        match event:
            case events.CallClaimed():
                self._count(event.tool, claims=1, saved_s=event.saved_s)
            case events.CallMissed():
                generation_s = None if turn is None else turn.generation_s
                self._count(event.tool, misses=1, could_save_s=_could_save_s(generation_s, event))
            case events.SpeculationWasted():
                disclosed = int(event.disclosed)
                self._count(
                    event.tool, wasted=1, wasted_s=event.ran_s, wasted_cost=event.cost, disclosures=disclosed
                )
            case events.DraftUnclaimed():
                self._count(event.tool, unclaimed=1, unseen=int(event.made and not event.called))
            case events.SpeculationStopped():
                self._count(event.tool)
                self._stopped[event.tool] = event.reason
            case events.SubmissionRefused():
                self._count(event.tool, refused_submissions=1)
                self._refusals[event.reason] += 1
            case events.PredictorStarted():
                self._count_of(event.predictor, started=1)
            case events.PredictorSkipped():
                self._count_of(event.predictor, skipped=1)
            case events.DraftRefused(invalid=True):
                self._count_of(event.predictor, invalid=1)
            case events.DraftJudged():
                self._count_of(event.predictor, drafts=1, correct=int(event.correct))
            case events.PredictorFailed():
                self._count_of(event.predictor, failures=1)
            case events.AheadKept():
                _add(self._ahead, {"kept": 1, "saved_s": event.saved_s})
            case events.AheadWasted():
                _add(self._ahead, {"wasted": 1, "wasted_s": event.ran_s})
            case events.PredictorCharged(cost=cost):
                self._count_of(
                    event.predictor,
                    input_tokens=cost.input_tokens,
                    output_tokens=cost.output_tokens,
                    money=cost.money,
                )

    def _turn(self, number: int) -> _Turn | None:
        for turn in reversed(self._turns):  # nearly always the last one
            if turn.number == number:
                return turn
        return None

    def _count(self, tool: str, **more: float) -> None:
        _add(self._tools.setdefault(tool, {}), more)

    def _count_of(self, predictor: str, **more: float) -> None:
        _add(self._predictors.setdefault(predictor, {}), more)


def _log_failure(event: SpeculationEvent, error: BaseException) -> None:
    error.__suppress_context__ = True  # the error that the event reports may hold secrets
    logger.error("a speculation observer failed on %s", type(event).__name__, exc_info=error)


def _problem(event: SpeculationEvent) -> str | None:
    """Return what an event says of a turn that did not go as wished."""
    match event:
        case events.DraftRefused():
            return f"{event.predictor} drafted {event.tool}: {event.reason}"
        case events.PredictorFailed():
            return f"{event.predictor} failed: {event.error}"
        case events.PredictorSkipped():
            return f"{event.predictor} was not started: {event.reason}"
        case events.PredictorStopped():
            return f"{event.predictor} was stopped: {event.reason}"
        case events.DraftUnclaimed():
            return f"a right draft of {event.tool} was not claimed: {event.reason}"
        case events.SpeculationStopped():
            return f"speculation of {event.tool} has stopped: {event.reason}"
        case events.AheadWasted():
            return f"a model request sent ahead was wasted: {event.reason}"
        case events.DiscardFailed():
            return f"a preparation of {event.tool} could not be discarded: {event.error}"
        case events.WorkAbandoned():
            return f"{event.name} did not end within {event.waited_s:g} s of its cancellation: abandoned"
        case events.SubmissionRefused():
            return f"the engine's tool cache refused a result of {event.tool}: {event.reason}"
        case _:
            return None


def _call_report(
    call: events.CallClaimed | events.CallMissed, generation_s: float | None, zero: float
) -> CallReport:
    if isinstance(call, events.CallClaimed):
        return CallReport(
            tool=call.tool,
            hit=True,
            tool_s=call.tool_s,
            waited_s=call.waited_s,
            saved_s=call.saved_s,
            draft_s=call.draft_s,
            called_s=call.at_s - call.waited_s - zero,
            run=call.run,
        )
    return CallReport(
        tool=call.tool,
        hit=False,
        tool_s=call.tool_s,
        waited_s=call.tool_s,
        saved_s=0.0,
        draft_s=call.draft_s,
        could_save_s=_could_save_s(generation_s, call),
        reason=call.reason,
        called_s=call.at_s - call.tool_s - zero,
    )


def _run_report(run: events.CallClaimed | events.SpeculationWasted, started_s: float) -> RunReport:
    ran_s, reason = (run.tool_s, "") if isinstance(run, events.CallClaimed) else (run.ran_s, run.reason)
    claimed = isinstance(run, events.CallClaimed)
    return RunReport(
        run=run.run, tool=run.tool, started_s=started_s, ran_s=ran_s, claimed=claimed, reason=reason
    )


def _could_save_s(generation_s: float | None, missed: events.CallMissed) -> float:
    if generation_s is None or missed.draft_s is None:
        return 0.0
    return saved_seconds(generation_s - missed.draft_s, missed.tool_s)


def _add(counts: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        counts[name] = counts.get(name, 0) + value


def _sum(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for counts in each:
        _add(total, counts)
    return total
