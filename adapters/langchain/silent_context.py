"""The context of speculation: the user's own context variables, without the user's callbacks and traces."""

from __future__ import annotations

from contextvars import Context, copy_context

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers import context as tracers
from langsmith.run_helpers import tracing_context


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
