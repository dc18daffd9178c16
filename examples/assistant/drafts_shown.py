"""What became of the guesses, counted as speculation reports it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from agentrt.reports.events import (
    CallClaimed,
    CallMissed,
    SpeculationEvent,
    SpeculationStarted,
    SpeculationWasted,
)

from .view import EarlyView


@dataclass(frozen=True)
class Guesses:
    """``hits``: calls whose result was there or under way when the model made them; ``misses``: calls of
    speculable tools that had not been guessed; ``wasted``: early runs that nobody asked for; ``hidden_s``:
    how many seconds of the hits' tools nobody waited for.
    """

    hits: int = 0
    misses: int = 0
    wasted: int = 0
    hidden_s: float = 0.0

    def __add__(self, other: Guesses) -> Guesses:
        """The sum of both."""
        return Guesses(
            self.hits + other.hits,
            self.misses + other.misses,
            self.wasted + other.wasted,
            self.hidden_s + other.hidden_s,
        )


class GuessCounter:
    """Counts guesses and shows early runs; its events come from any thread."""

    def __init__(self, view: EarlyView) -> None:
        """Show on ``view`` which tools start early."""
        self._view = view
        self._lock = threading.Lock()
        self._guesses = Guesses()

    def on_event(self, event: SpeculationEvent) -> None:
        """Take note of what happened."""
        match event:
            case SpeculationStarted(tool=tool):
                self._view.early(tool)
            case CallClaimed():
                self._add(Guesses(hits=1, hidden_s=event.saved_s))
            case CallMissed():
                self._add(Guesses(misses=1))
            case SpeculationWasted():
                self._add(Guesses(wasted=1))

    def take(self) -> Guesses:
        """All guesses since the last time."""
        with self._lock:
            taken, self._guesses = self._guesses, Guesses()
        return taken

    def _add(self, more: Guesses) -> None:
        with self._lock:
            self._guesses += more
