"""Read-your-writes for tools that are not speculable: LangChain reports each run of a tool."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

from agentrt.adapting import current_scope, write_log


class WriteObserver(BaseCallbackHandler):
    """Notes when a run of a watched tool begins and ends, whoever has called it and with what.

    The calls in a model's answer are noted when it is bound. This adds those that are made otherwise: calls
    into which a person has edited another call, and calls of a model that does not speculate.
    """

    run_inline = True
    ignore_llm = ignore_chain = ignore_retriever = ignore_chat_model = ignore_custom_event = True

    def __init__(self) -> None:
        """Create an observer without runs."""
        self._lock = threading.Lock()
        self._running: dict[UUID, tuple[Hashable, str]] = {}

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **_: Any) -> None:
        """Note a write that begins: results read until now are outdated."""
        name = str((serialized or {}).get("name"))
        if write_log.watches(name):
            with self._lock:
                self._running[run_id] = run = current_scope(), name
            write_log.note(*run)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Note a write that has ended: so are those read meanwhile."""
        self._end(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Note a write that has failed: it may have had its effect."""
        self._end(run_id)

    def _end(self, run_id: UUID) -> None:
        with self._lock:
            run = self._running.pop(run_id, None)
        if run is not None:
            write_log.note(*run)


# One observer for every context: a write outdates the reads of its run, wherever it is called.
_observer: ContextVar[WriteObserver | None] = ContextVar(
    "agentrt_write_observer",
    default=WriteObserver(),  # noqa: B039 - it locks its state
)
_registering = threading.Lock()
_registered = False


def observe_writes() -> None:
    """Let LangChain report runs of tools to the process's write log, from now on."""
    global _registered
    with _registering:
        if not _registered:
            register_configure_hook(_observer, inheritable=False)
            _registered = True
