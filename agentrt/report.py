"""What speculation did: typed events as it happens, and a report of what it was worth."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict

from .futures import Speculation

_MAX_PROBLEMS = 16  # of one turn; an endless predictor must not fill the memory
logger = logging.getLogger("agentrt")


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A model call began; ``turn`` numbers the calls of one report from 1."""

    turn: int


@dataclass(frozen=True, slots=True)
class DraftArrived:
    """A predictor guessed a call of ``tool``, ``after_s`` seconds into the turn."""

    turn: int
    predictor: str
    tool: str
    after_s: float


@dataclass(frozen=True, slots=True)
class DraftRefused:
    """A guess started nothing; ``reason`` says why. Repeated guesses of one call are not refused."""

    turn: int
    predictor: str
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class PredictorFailed:
    """A predictor raised; the main call did not notice."""

    turn: int
    predictor: str
    error: str


@dataclass(frozen=True, slots=True)
class SpeculationStarted:
    """An early run of ``tool`` began."""

    turn: int
    tool: str


@dataclass(frozen=True, slots=True)
class TurnAnswered:
    """The main model answered after ``generation_s`` seconds, calling ``tools`` in this order."""

    turn: int
    generation_s: float
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallClaimed:
    """A call was answered by a speculation (a hit).

    The tool ran ``tool_s`` seconds, of which the agent waited ``waited_s``; the draft had come
    ``draft_s`` seconds into the turn.
    """

    turn: int
    tool: str
    tool_s: float
    waited_s: float
    draft_s: float

    @property
    def saved_s(self) -> float:
        """The seconds of the tool's run that the agent did not wait for."""
        return max(0.0, self.tool_s - self.waited_s)


@dataclass(frozen=True, slots=True)
class CallMissed:
    """A call of a speculable tool was run for real and took ``tool_s`` seconds."""

    turn: int
    tool: str
    tool_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class SpeculationWasted:
    """An early run was not used; the tool had run ``ran_s`` seconds by then."""

    turn: int
    tool: str
    ran_s: float
    reason: str


SpeculationEvent: TypeAlias = (
    TurnStarted
    | DraftArrived
    | DraftRefused
    | PredictorFailed
    | SpeculationStarted
    | TurnAnswered
    | CallClaimed
    | CallMissed
    | SpeculationWasted
)


class SpeculationObserver(Protocol):
    """Sees every event as it happens, from whichever thread it happens in; must not block.

    Events name tools and predictors, never arguments or results. An exception is logged and dropped.
    """

    def on_event(self, event: SpeculationEvent) -> None:
        """Take note of ``event``."""
        ...


class CallReport(BaseModel):
    """One call of a speculable tool; see :class:`CallClaimed` for the times of a hit, in seconds."""

    model_config = ConfigDict(frozen=True)

    tool: str
    hit: bool
    tool_s: float
    waited_s: float
    saved_s: float
    draft_s: float | None = None
    reason: str = ""


class TurnReport(BaseModel):
    """One model call: its time in seconds (G), and what became of the calls it made."""

    model_config = ConfigDict(frozen=True)

    turn: int
    generation_s: float | None = None
    drafts: int = 0
    first_draft_s: float | None = None
    tools: tuple[str, ...] = ()
    calls: tuple[CallReport, ...] = ()
    wasted: int = 0
    problems: tuple[str, ...] = ()

    @property
    def saved_s(self) -> float:
        """Seconds of tool time that the agent did not wait for."""
        return sum(call.saved_s for call in self.calls)


class ToolReport(BaseModel):
    """Totals of one tool, or of all. Seconds are sums."""

    model_config = ConfigDict(frozen=True)

    claims: int = 0
    misses: int = 0
    wasted: int = 0
    saved_s: float = 0.0
    wasted_s: float = 0.0

    @property
    def claim_rate(self) -> float:
        """The share of calls that had been predicted (SpecTools' alpha); 0 if there were none."""
        calls = self.claims + self.misses
        return self.claims / calls if calls else 0.0


class SpeculationReport(BaseModel):
    """What speculation did so far. ``turns`` may have dropped the oldest; the totals cover all."""

    model_config = ConfigDict(frozen=True)

    turns: tuple[TurnReport, ...] = ()
    tools: dict[str, ToolReport] = {}
    total: ToolReport = ToolReport()


class Reporter:
    """Builds the report from events and passes them on to observers. Thread-safe."""

    def __init__(self, *, turns_kept: int, observers: Sequence[SpeculationObserver] = ()) -> None:
        """Nothing has happened yet."""
        self._observers = tuple(observers)
        self._lock = threading.Lock()
        self._turns: deque[TurnReport] = deque(maxlen=turns_kept)
        self._tools: dict[str, ToolReport] = {}
        self._last_turn = 0

    def next_turn(self) -> int:
        """Number a new turn and announce it."""
        with self._lock:
            self._last_turn += 1
            turn = self._last_turn
        self.note(TurnStarted(turn))
        return turn

    def note(self, event: SpeculationEvent) -> None:
        """Enter ``event`` into the report and tell the observers."""
        with self._lock:
            self._enter(event)
        for observer in self._observers:
            try:
                observer.on_event(event)
            except Exception:
                logger.exception("a speculation observer failed on %s", type(event).__name__)

    def report(self) -> SpeculationReport:
        """Return the report as of now."""
        with self._lock:
            return SpeculationReport(
                turns=tuple(self._turns), tools=dict(self._tools), total=_sum(self._tools.values())
            )

    def _enter(self, event: SpeculationEvent) -> None:
        if isinstance(event, TurnStarted):
            self._turns.append(TurnReport(turn=event.turn))
            return
        if isinstance(event, CallClaimed):
            self._count(event.tool, claims=1, saved_s=event.saved_s)
        elif isinstance(event, CallMissed):
            self._count(event.tool, misses=1)
        elif isinstance(event, SpeculationWasted):
            self._count(event.tool, wasted=1, wasted_s=event.ran_s)
        for place in range(len(self._turns) - 1, -1, -1):  # nearly always the last one
            if self._turns[place].turn == event.turn:
                self._turns[place] = _updated(self._turns[place], event)
                return

    def _count(self, tool: str, **more: float) -> None:
        known = self._tools.get(tool, ToolReport())
        self._tools[tool] = known.model_copy(
            update={name: getattr(known, name) + value for name, value in more.items()}
        )


class TurnRecorder:
    """Notes what becomes of one turn's calls."""

    def __init__(self, reporter: Reporter, turn: int) -> None:
        """``turn`` is the number under which the reporter knows the turn."""
        self._reporter = reporter
        self._turn = turn

    def claimed(self, tool: str, *, tool_s: float, waited_s: float, draft_s: float) -> None:
        """Note a hit."""
        self._reporter.note(CallClaimed(self._turn, tool, tool_s, waited_s, draft_s))

    def missed(self, tool: str, *, tool_s: float, reason: str) -> None:
        """Note a miss."""
        self._reporter.note(CallMissed(self._turn, tool, tool_s, reason))

    def wasted(self, speculation: Speculation, reason: str) -> None:
        """Note a speculation that was not used."""
        self._reporter.note(
            SpeculationWasted(
                self._turn, speculation.tool, speculation.seconds, speculation.lost_because or reason
            )
        )


def _updated(turn: TurnReport, event: SpeculationEvent) -> TurnReport:
    match event:
        case DraftArrived(after_s=after_s):
            first = after_s if turn.first_draft_s is None else turn.first_draft_s
            return turn.model_copy(update={"drafts": turn.drafts + 1, "first_draft_s": first})
        case DraftRefused(predictor=predictor, tool=tool, reason=reason):
            return _with_problem(turn, f"{predictor} drafted {tool}: {reason}")
        case PredictorFailed(predictor=predictor, error=error):
            return _with_problem(turn, f"{predictor} failed: {error}")
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
                tool=tool, hit=False, tool_s=tool_s, waited_s=tool_s, saved_s=0.0, reason=reason
            )
            return turn.model_copy(update={"calls": (*turn.calls, missed)})
        case SpeculationWasted():
            return turn.model_copy(update={"wasted": turn.wasted + 1})
        case TurnStarted() | SpeculationStarted():
            return turn


def _with_problem(turn: TurnReport, problem: str) -> TurnReport:
    return turn.model_copy(update={"problems": (*turn.problems, problem)[:_MAX_PROBLEMS]})


def _sum(reports: Iterable[ToolReport]) -> ToolReport:
    total = ToolReport()
    for report in reports:
        total = ToolReport(
            **{name: getattr(total, name) + getattr(report, name) for name in ToolReport.model_fields}
        )
    return total
