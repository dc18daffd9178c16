"""Whose run a model call or a tool call belongs to, as far as LangGraph says."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config

from agentrt.tools.scopes import current_scope


def scope_of_run() -> Hashable | None:
    """Return a key that the model calls and tool calls of one run share with no other run, or None.

    That is what :func:`agentrt.run_scope` says, else the thread of a checkpointer, which also outlives an
    interrupted run, else what LangGraph keeps for each of its runs.
    """
    scope = current_scope()
    if scope is not None:
        return scope
    settings: dict[str, Any] = (var_child_runnable_config.get() or {}).get("configurable") or {}
    thread: str | None = settings.get("thread_id")
    if thread is not None:
        return "thread", thread
    control: Hashable | None = getattr(settings.get("__pregel_runtime"), "control", None)
    return control
