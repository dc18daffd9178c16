"""The context of speculation: the user's own context variables, without the user's traces."""

from __future__ import annotations

from contextvars import Context, copy_context

from agents.tracing.scope import Scope
from agents.tracing.traces import NoOpTrace


def silent_context() -> Context:
    """Return a copy of this context in which the spans that a tool makes are in no trace.

    A claimed speculation is one function span of the user's trace, as the call without speculation is.
    """
    context = copy_context()
    context.run(_silence)
    return context


def _silence() -> None:
    Scope.set_current_trace(NoOpTrace())  # type: ignore[no-untyped-call]
    Scope.set_current_span(None)
