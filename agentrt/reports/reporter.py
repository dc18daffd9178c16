"""Builds the report from the events of speculation."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from ..perfmodel import saved_seconds
from .events import (
    AheadKept,
    AheadStarted,
    AheadWasted,
    CallClaimed,
    CallMissed,
    DiscardFailed,
    DraftArrived,
    DraftJudged,
    DraftRefused,
    DraftUnclaimed,
    PredictorCharged,
    PredictorFailed,
    PredictorSkipped,
    PredictorStarted,
    PredictorStopped,
    SpeculationEvent,
    SpeculationObserver,
    SpeculationStarted,
    SpeculationStopped,
    SpeculationWasted,
    TurnAnswered,
    TurnStarted,
)
from .report import AheadReport, CallReport, PredictorReport, SpeculationReport, ToolReport, TurnReport

Counts = TypeVar("Counts", bound=BaseModel)

_MAX_PROBLEMS = 16  # of one turn, so that an endless predictor cannot fill the memory
logger = logging.getLogger("agentrt")


class Reporter:
    """Builds the report from events and notifies observers. Thread-safe."""

    def __init__(self, *, turns_kept: int, observers: Sequence[SpeculationObserver] = ()) -> None:
        """``turns_kept`` is how many turns the report lists; the totals cover all."""
        self._observers = tuple(observers)
        self._lock = threading.Lock()
        self._turns: deque[TurnReport] = deque(maxlen=turns_kept)
        self._tools: dict[str, ToolReport] = {}
        self._predictors: dict[str, PredictorReport] = {}
        self._ahead = AheadReport()
        self._last_turn = 0

    def next_turn(self) -> int:
        """Return the number of a new turn, and note its start."""
        with self._lock:
            self._last_turn += 1
            turn = self._last_turn
        self.note(TurnStarted(turn))
        return turn

    def note(self, event: SpeculationEvent) -> None:
        """Enter ``event`` into the report and notify the observers."""
        with self._lock:
            self._enter(event)
        for observer in self._observers:
            try:
                observer.on_event(event)
            except Exception:
                logger.exception("a speculation observer failed on %s", type(event).__name__)

    def report(self) -> SpeculationReport:
        """Return the current report."""
        with self._lock:
            return SpeculationReport(
                turns=tuple(self._turns),
                tools=dict(self._tools),
                total=_sum(self._tools.values()),
                predictors=dict(self._predictors),
                ahead=self._ahead,
            )

    def _enter(self, event: SpeculationEvent) -> None:
        if isinstance(event, TurnStarted):
            self._turns.append(TurnReport(turn=event.turn))
            return
        turn = None
        for place in range(len(self._turns) - 1, -1, -1):  # nearly always the last one
            if self._turns[place].turn == event.turn:
                turn = self._turns[place] = _updated(self._turns[place], event)
                break
        match event:
            case CallClaimed():
                self._count(event.tool, claims=1, saved_s=event.saved_s)
            case CallMissed():
                self._count(event.tool, misses=1, could_save_s=_could_save_s(turn, event))
            case SpeculationWasted():
                self._count(event.tool, wasted=1, wasted_s=event.ran_s, wasted_cost=event.cost)
            case DraftUnclaimed():
                self._count(event.tool, unclaimed=1, unseen=int(not event.called))
            case SpeculationStopped():
                known = self._tools.get(event.tool, ToolReport())
                self._tools[event.tool] = known.model_copy(update={"stopped": event.reason})
            case PredictorStarted():
                self._count_of(event.predictor, started=1)
            case PredictorSkipped():
                self._count_of(event.predictor, skipped=1)
            case DraftJudged():
                self._count_of(event.predictor, drafts=1, correct=int(event.correct))
            case PredictorFailed():
                self._count_of(event.predictor, failures=1)
            case AheadKept():
                self._ahead = _plus(self._ahead, {"kept": 1, "saved_s": event.saved_s})
            case AheadWasted():
                self._ahead = _plus(self._ahead, {"wasted": 1, "wasted_s": event.ran_s})
            case PredictorCharged(cost=cost):
                self._count_of(
                    event.predictor,
                    input_tokens=cost.input_tokens,
                    output_tokens=cost.output_tokens,
                    money=cost.money,
                )

    def _count(self, tool: str, **more: float) -> None:
        self._tools[tool] = _plus(self._tools.get(tool, ToolReport()), more)

    def _count_of(self, predictor: str, **more: float) -> None:
        known = self._predictors.get(predictor, PredictorReport())
        self._predictors[predictor] = _plus(known, more)


def _updated(turn: TurnReport, event: SpeculationEvent) -> TurnReport:
    match event:
        case DraftArrived(after_s=after_s):
            first = after_s if turn.first_draft_s is None else turn.first_draft_s
            return turn.model_copy(update={"drafts": turn.drafts + 1, "first_draft_s": first})
        case DraftRefused(predictor=predictor, tool=tool, reason=reason):
            return _with_problem(turn, f"{predictor} drafted {tool}: {reason}")
        case PredictorFailed(predictor=predictor, error=error):
            return _with_problem(turn, f"{predictor} failed: {error}")
        case PredictorSkipped(predictor=predictor, reason=reason):
            return _with_problem(turn, f"{predictor} was not started: {reason}")
        case PredictorStopped(predictor=predictor, reason=reason):
            return _with_problem(turn, f"{predictor} was stopped: {reason}")
        case TurnAnswered(generation_s=generation_s, tools=tools):
            return turn.model_copy(update={"generation_s": generation_s, "tools": tools})
        case CallClaimed():
            call = CallReport(
                tool=event.tool,
                hit=True,
                tool_s=event.tool_s,
                waited_s=event.waited_s,
                saved_s=event.saved_s,
                draft_s=event.draft_s,
            )
            return turn.model_copy(update={"calls": (*turn.calls, call)})
        case CallMissed(tool=tool, tool_s=tool_s, reason=reason):
            missed = CallReport(
                tool=tool,
                hit=False,
                tool_s=tool_s,
                waited_s=tool_s,
                saved_s=0.0,
                draft_s=event.draft_s,
                could_save_s=_could_save_s(turn, event),
                reason=reason,
            )
            return turn.model_copy(update={"calls": (*turn.calls, missed)})
        case SpeculationWasted():
            return turn.model_copy(update={"wasted": turn.wasted + 1})
        case AheadKept(saved_s=saved_s):
            return turn.model_copy(update={"ahead_s": saved_s})
        case AheadWasted(reason=reason):
            return _with_problem(turn, f"a model request sent ahead was wasted: {reason}")
        case DraftUnclaimed(tool=tool, reason=reason):
            return _with_problem(turn, f"a right draft of {tool} was not claimed: {reason}")
        case SpeculationStopped(tool=tool, reason=reason):
            return _with_problem(turn, f"speculation of {tool} has stopped: {reason}")
        case DiscardFailed(tool=tool, error=error):
            return _with_problem(turn, f"a preparation of {tool} could not be discarded: {error}")
        case (
            TurnStarted()
            | AheadStarted()
            | SpeculationStarted()
            | PredictorStarted()
            | PredictorCharged()
            | DraftJudged()
        ):
            return turn


def _could_save_s(turn: TurnReport | None, missed: CallMissed) -> float:
    if turn is None or turn.generation_s is None or missed.draft_s is None:
        return 0.0
    return saved_seconds(turn.generation_s - missed.draft_s, missed.tool_s)


def _plus(known: Counts, more: dict[str, float]) -> Counts:
    return known.model_copy(update={name: getattr(known, name) + value for name, value in more.items()})


def _with_problem(turn: TurnReport, problem: str) -> TurnReport:
    return turn.model_copy(update={"problems": (*turn.problems, problem)[:_MAX_PROBLEMS]})


def _sum(reports: Iterable[ToolReport]) -> ToolReport:
    total = ToolReport()
    for report in reports:
        total = _plus(total, report.model_dump(exclude={"stopped"}))
    return total
