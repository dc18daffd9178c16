"""The run that a model request or tool call belongs to, as LangGraph reports it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config


def langgraph_run() -> Hashable | None:
    """Return a key that only the model requests and tool calls of one run share; None if there is no run.

    It is the thread of a checkpointer, which also outlives an interrupted run, else the control object that
    LangGraph keeps for each run.
    """
    settings: dict[str, Any] = (var_child_runnable_config.get() or {}).get("configurable") or {}
    thread: str | None = settings.get("thread_id")
    if thread is not None:
        return "thread", thread
    control: Hashable | None = getattr(settings.get("__pregel_runtime"), "control", None)
    return control
