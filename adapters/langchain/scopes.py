"""The run and the thread that a model request or tool call belongs to, as LangGraph reports them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config


def langgraph_run() -> Hashable | None:
    """Return a key that only the model requests and tool calls of one run share; None if there is no run.

    It is the thread of a checkpointer, which also outlives an interrupted run, else the control object that
    LangGraph keeps for each run.
    """
    thread = langgraph_thread()
    if thread is not None:
        return "thread", thread
    control: Hashable | None = getattr(configurable_of_run().get("__pregel_runtime"), "control", None)
    return control


def langgraph_thread() -> Hashable | None:
    """Return the ``thread_id`` of the running graph as it was given; None without one, or without a graph."""
    thread: Hashable | None = configurable_of_run().get("thread_id")
    return thread


def configurable_of_run() -> Mapping[str, Any]:
    """Return the entries of ``configurable`` of the running graph; none outside of one."""
    settings: Mapping[str, Any] = (var_child_runnable_config.get() or {}).get("configurable") or {}
    return settings
