"""State that all turns of one speculating model, client or session share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Self

from ..argument_checks import check_collection, check_setting
from ..config import SpeculationConfig
from ..errors import ConfigurationError
from ..lookahead.ahead import AheadTable
from ..reports.events import (
    CallClaimed,
    DraftUnclaimed,
    SpeculationEvent,
    SpeculationObserver,
    SpeculationStopped,
)
from ..reports.reporter import Reporter
from ..reports.tracing import SpanObserver, tracing_observer
from .controller import Controller

logger = logging.getLogger("agentrt")
_TURNS = 2  # with right drafts that were not claimed, after which a tool is stopped


@dataclass(frozen=True, slots=True)
class SharedState:
    """Settings, controller, report, requests sent ahead and spans; ``samples`` is SpecTools' λ."""

    samples: int
    config: SpeculationConfig
    controller: Controller
    reporter: Reporter
    ahead: AheadTable
    watch: ClaimWatch
    spans: SpanObserver | None

    @classmethod
    def create(
        cls, samples: int, config: SpeculationConfig | None, observers: Sequence[SpeculationObserver]
    ) -> Self:
        """Return new state with nothing learned; ``config`` None means the defaults.

        Raises:
            ConfigurationError: ``samples``, ``config`` or ``observers`` cannot be used.
        """
        check_setting("samples", samples, int, "a whole number of at least 1")
        if samples < 1:
            raise ConfigurationError(f"samples is {samples}. Give a whole number of at least 1.")
        check_collection("observers", observers, "a list of objects with on_event(event)")
        for observer in observers:
            usable = isinstance(observer, SpeculationObserver) and not isinstance(observer, type)
            check_setting("observers", observer, object if usable else (), "objects with on_event(event)")
        check_setting("config", config, (SpeculationConfig, NoneType), "a SpeculationConfig(...), or None")
        chosen = config or SpeculationConfig()
        controller = Controller(chosen)
        watch = ClaimWatch(lambda event: reporter.note(event))
        spans = tracing_observer()
        own = (controller, watch) if spans is None else (controller, watch, spans)
        reporter = Reporter(turns_kept=chosen.report_turns, observers=(*own, *observers))
        return cls(
            samples, chosen, controller, reporter, AheadTable(chosen.turn_ahead, reporter), watch, spans
        )

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: a deep copy of a model or session learns from, and reports to, the same state."""
        return self


class ClaimWatch:
    """Notes which tools are called in a way that cannot claim: each such call would run its tool twice.

    It is a :class:`~agentrt.reports.events.SpeculationObserver`. A tool is stopped, with one warning, after
    two turns with right drafts that were not claimed, if no call of the tool has claimed in between. A call
    that was not made, because a person rejected it or the run ended, does not count. Thread-safe.
    """

    def __init__(self, note: Callable[[SpeculationEvent], None]) -> None:
        """``note`` takes the event of a tool that is stopped."""
        self._note = note
        self._lock = threading.Lock()
        self._turns: dict[str, set[int]] = {}
        self._stopped: dict[str, str] = {}

    def stopped(self, tool: str) -> str | None:
        """Return why the tool is not run speculatively any more; None if it is."""
        return self._stopped.get(tool)

    def on_event(self, event: SpeculationEvent) -> None:
        """Count turns with right drafts of a tool that were not claimed."""
        if isinstance(event, CallClaimed):
            self._turns.pop(event.tool, None)
        elif isinstance(event, DraftUnclaimed) and event.made and self._stops(event):
            logger.warning(
                "%s is not run speculatively any more: %s. Call the speculable tool itself, with the call's "
                "id or in the context in which the model's request was sent, or name the run with "
                "agentrt.run_scope().",
                event.tool,
                self._stopped[event.tool],
            )
            self._note(SpeculationStopped(event.turn, event.tool, self._stopped[event.tool]))

    def _stops(self, event: DraftUnclaimed) -> bool:
        with self._lock:
            turns = self._turns.setdefault(event.tool, set())
            turns.add(event.turn)
            if len(turns) < _TURNS or event.tool in self._stopped:
                return False
            self._stopped[event.tool] = f"right drafts of {_TURNS} turns were not claimed ({event.reason})"
            return True
