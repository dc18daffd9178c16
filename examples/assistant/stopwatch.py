"""How long an agent's model and tools took, measured where LangChain reports their starts and ends."""

from __future__ import annotations

from time import perf_counter
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler


class Stopwatch(AsyncCallbackHandler):
    """Model calls, and seconds spent waiting for them and for tools, while it is passed as a callback."""

    def __init__(self) -> None:
        """Start at zero."""
        self.model_calls = 0
        self.model_seconds = 0.0
        self.tool_seconds = 0.0
        self._started: dict[UUID, float] = {}

    async def on_chat_model_start(self, *args: Any, run_id: UUID, **details: Any) -> None:
        """A model call begins."""
        self._started[run_id] = perf_counter()

    async def on_llm_end(self, *args: Any, run_id: UUID, **details: Any) -> None:
        """A model call ends."""
        self.model_calls += 1
        self.model_seconds += perf_counter() - self._started.pop(run_id)

    async def on_tool_start(self, *args: Any, run_id: UUID, **details: Any) -> None:
        """A tool call begins."""
        self._started[run_id] = perf_counter()

    async def on_tool_end(self, *args: Any, run_id: UUID, **details: Any) -> None:
        """A tool call ends."""
        self.tool_seconds += perf_counter() - self._started.pop(run_id)

    async def on_tool_error(self, *args: Any, run_id: UUID, **details: Any) -> None:
        """A tool call fails, which takes time, too."""
        self.tool_seconds += perf_counter() - self._started.pop(run_id)
