"""Notes the outcome of one turn's calls and speculations."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ..tools.speculation import Speculation
from .events import CallClaimed, CallMissed, DraftUnclaimed, SpeculationStarted, SpeculationWasted
from .reporter import Reporter
from .tracing import SpanObserver


class TurnRecorder:
    """Turns the runs, hits, misses and waste of one turn into events, and into spans with ``spans``."""

    def __init__(self, reporter: Reporter, turn: int, spans: SpanObserver | None = None) -> None:
        """``turn`` is the turn's number from :meth:`Reporter.next_turn`."""
        self._reporter = reporter
        self._turn = turn
        self._spans = spans

    def running(self, speculation: Speculation) -> AbstractContextManager[None]:
        """Note that ``speculation`` begins, and return the block that starts it."""
        draft, cost = speculation.draft, speculation.cost
        self._reporter.note(
            SpeculationStarted(self._turn, draft.tool, draft.predictor, cost, speculation.number)
        )
        return nullcontext() if self._spans is None else self._spans.running(self._turn, speculation.number)

    def calling(
        self, tool: str, call_id: str | None, speculation: Speculation | None
    ) -> AbstractContextManager[None]:
        """Return the block of a call that has reached ``tool``, and may be answered by ``speculation``."""
        if self._spans is None:
            return nullcontext()
        run = None if speculation is None else speculation.number
        return self._spans.calling(self._turn, tool, call_id, run)

    def claimed(self, speculation: Speculation, *, tool_s: float, waited_s: float) -> None:
        """Note a hit."""
        self._reporter.note(
            CallClaimed(
                self._turn,
                speculation.draft.tool,
                tool_s,
                waited_s,
                speculation.draft.draft_s,
                speculation.draft.predictor,
                speculation.cost,
                speculation.number,
            )
        )

    def missed(self, tool: str, *, tool_s: float, reason: str, draft_s: float | None = None) -> None:
        """Note a miss."""
        self._reporter.note(CallMissed(self._turn, tool, tool_s, reason, draft_s))

    def unclaimed(self, speculation: Speculation, reason: str, *, called: bool, made: bool) -> None:
        """Note a right draft whose speculation its call did not claim."""
        draft = speculation.draft
        why = speculation.lost_because or reason
        self._reporter.note(DraftUnclaimed(self._turn, draft.tool, draft.predictor, why, called, made))

    def wasted(self, speculation: Speculation, reason: str) -> None:
        """Note a speculation that was not claimed."""
        self._reporter.note(
            SpeculationWasted(
                self._turn,
                speculation.draft.tool,
                speculation.seconds,
                speculation.lost_because or reason,
                speculation.draft.predictor,
                speculation.cost,
                speculation.number,
                speculation.discloses,
            )
        )
