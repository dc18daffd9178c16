"""The callbacks of a run that can prevent its tools, such as a person's approval in ``on_tool_start``."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config

_WITHOUT_EFFECT = (BaseCallbackHandler.on_tool_start, AsyncCallbackHandler.on_tool_start)


def current_callbacks() -> Any:
    """Return the callbacks of the running node or runnable: a list or manager of handlers, or None."""
    return (var_child_runnable_config.get() or {}).get("callbacks")


def raises_before_tools(callbacks: Any) -> bool:
    """Whether one of these callbacks may raise before a tool runs, so that the tool does not."""
    handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", [])
    return any(
        each.raise_error and not each.ignore_agent and type(each).on_tool_start not in _WITHOUT_EFFECT
        for each in handlers
    )
