"""The configuration of a model request in a run of LangGraph that the context does not show.

LangGraph runs the first step of a node that is a sequence, such as ``prompt | model``, in the context of its
run, and hands the run's configuration to the others. So does code that asks the model in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import var_child_runnable_config

_request: ContextVar[tuple[RunnableConfig | None, RunnableConfig] | None] = ContextVar(
    "agentrt_request_config", default=None
)


def names_unseen_run(config: RunnableConfig | None) -> bool:
    """Whether the configuration given to a request is that of a node, and the context's is not."""
    return _is_of_node(config) and not _is_of_node(var_child_runnable_config.get())


def _is_of_node(config: RunnableConfig | None) -> bool:
    return "__pregel_task_id" in ((config or {}).get("configurable") or {})


@contextmanager
def request_with(config: RunnableConfig | None) -> Iterator[None]:
    """Let :func:`in_run_of_request` enter the run of this configuration, inside the block."""
    token = _request.set((var_child_runnable_config.get(), ensure_config(config)))
    try:
        yield
    finally:
        _request.reset(token)


@contextmanager
def in_run_of_request() -> Iterator[None]:
    """Show the run of the request to the block, if the context is the one in which it was sent."""
    request, shown = _request.get(), var_child_runnable_config.get()
    if request is None or request[0] is not shown:
        yield
        return
    token = var_child_runnable_config.set(request[1])
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
