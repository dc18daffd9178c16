"""What one turn of an agent took: its model, its tools, and what speculation did."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from time import perf_counter
from typing import Any, Self
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler

from agentrt.reports import AheadStarted, SpeculationEvent, SpeculationReport, SpeculationStarted

from .view import SideLog


class Stopwatch(AsyncCallbackHandler):
    """Seconds spent waiting for a model and for tools, while it is passed as a callback."""

    def __init__(self) -> None:
        self.model_seconds = 0.0
        self.tool_seconds = 0.0
        self._started: dict[UUID, float] = {}

    async def on_chat_model_start(self, *args: Any, run_id: UUID, **details: Any) -> None:
        self._started[run_id] = perf_counter()

    async def on_llm_end(self, *args: Any, run_id: UUID, **details: Any) -> None:
        self.model_seconds += perf_counter() - self._started.pop(run_id)

    async def on_tool_end(self, *args: Any, run_id: UUID, **details: Any) -> None:
        self.tool_seconds += perf_counter() - self._started.pop(run_id)

    on_tool_start = on_chat_model_start
    on_tool_error = on_tool_end


@dataclass(frozen=True)
class SpeculationCounts:
    """Counts of one turn or of several.

    ``hits`` are calls whose tool was running, or done, when the model made them; ``misses`` are calls of
    speculable tools without a speculation; ``wasted`` are speculations that no call claimed; ``hidden_s`` is
    the time of the hits' tools that the user did not wait for, in seconds. ``ahead_kept`` and
    ``ahead_wasted`` are model requests that were sent ahead.
    """

    hits: int = 0
    misses: int = 0
    wasted: int = 0
    hidden_s: float = 0.0
    ahead_kept: int = 0
    ahead_wasted: int = 0

    @classmethod
    def of(cls, report: SpeculationReport) -> Self:
        total, ahead = report.total, report.ahead
        return cls(total.claims, total.misses, total.wasted, total.saved_s, ahead.kept, ahead.wasted)

    def __add__(self, other: SpeculationCounts) -> SpeculationCounts:
        return SpeculationCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: SpeculationCounts) -> SpeculationCounts:
        return SpeculationCounts(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


class SpeculationLines:
    """Observer that shows each tool that starts speculatively, and each request sent ahead."""

    def __init__(self, view: SideLog) -> None:
        """``view`` shows them; events come from any thread."""
        self._view = view

    def on_event(self, event: SpeculationEvent) -> None:
        match event:
            case SpeculationStarted(tool=tool):
                self._view.speculation(tool)
            case AheadStarted():
                self._view.ahead()
