"""State that all turns of one speculating model, client or session share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Self

from ..argument_checks import check_collection, check_setting
from ..config import SpeculationConfig
from ..errors import ConfigurationError
from ..lookahead.ahead import AheadTable
from ..reports.events import SpeculationObserver
from ..reports.reporter import Reporter
from ..reports.tracing import SpanObserver, tracing_observer
from .claim_watch import ClaimWatch
from .controller import Controller


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
