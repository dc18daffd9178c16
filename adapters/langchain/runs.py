"""The LangGraph run of a request or tool call, and the context of speculation, which belongs to none."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers import context as tracers
from langsmith.run_helpers import tracing_context

from agentrt.adapting import is_hidden_run


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
    return {} if is_hidden_run(settings) else settings


_request: ContextVar[tuple[RunnableConfig | None, RunnableConfig] | None] = ContextVar(
    "agentrt_request_config", default=None
)


def names_unseen_run(config: RunnableConfig | None) -> bool:
    """Whether the configuration given to a request is that of a node, and the context's is not."""
    return _is_of_node(config) and not _is_of_node(var_child_runnable_config.get())


def _is_of_node(config: RunnableConfig | None) -> bool:
    settings = (config or {}).get("configurable") or {}
    return not is_hidden_run(settings) and "__pregel_task_id" in settings


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


def silent_context() -> Context:
    """Return a copy of this context in which LangChain runs report to nothing of the user's.

    Most speculations are no part of the user's run, and a claimed one is reported as the tool call that
    claims it. So the copy has no config (with its callbacks and stream writers), no handler in a variable
    of ``register_configure_hook`` (token counts, collected runs) and no LangSmith tracing, whether the
    context or the environment has turned it on. All other variables, such as the user's identity, keep
    their values.
    """
    with tracing_context(enabled=False, parent=False):
        context = copy_context()
    context.run(_silence)
    return context


def _silence() -> None:
    var_child_runnable_config.set(None)
    tracers.tracing_v2_callback_var.set(None)
    for variable, _, _, environment_variable in tracers._configure_hooks:
        if environment_variable is not None:
            variable.set(_SILENT)  # while the variable is None, LangChain may create a handler
        elif variable.get() is not None:
            variable.set(None)


class _SilentHandler(BaseCallbackHandler):
    """Handler of no event."""

    ignore_llm = ignore_chat_model = ignore_chain = ignore_agent = True
    ignore_retriever = ignore_retry = ignore_custom_event = True


_SILENT = _SilentHandler()
