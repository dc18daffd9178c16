"""Stops the speculation of tools whose right drafts are not claimed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..reports.events import CallClaimed, DraftUnclaimed, SpeculationEvent, SpeculationStopped

_TURNS = 2
logger = logging.getLogger("agentrt")


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
