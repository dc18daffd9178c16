"""The run of the Agents SDK that a model request or tool call belongs to, its guardrails and its traces."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from contextvars import Context, copy_context
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from agents.tracing.scope import Scope
from agents.tracing.traces import NoOpTrace

_UNREADABLE = "this version of the Agents SDK does not show the input guardrails of a run"
_UNDECIDED = "an input guardrail of the agent decides while the model answers"
_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def agents_run() -> Hashable | None:
    """Return a key that only the model requests and tool calls of one run share; None if there is no run.

    A run is one call of ``Runner.run``, ``run_sync`` or ``run_streamed``. That of an agent used as a tool is
    a run of its own.
    """
    record = _record_of_first_agent(_current_run())
    return None if record is None else ("openai-agents", _names.setdefault(record, uuid4().hex))


def why_input_is_unapproved() -> str | None:
    """Return why the input of this run may still be rejected; None if it can not.

    Only the guardrails of the first agent that run in parallel to the model count: those that do not have
    decided before the first model request, and those of a ``RunConfig`` are not visible here.
    """
    variable = _run_variable()
    if variable is None:
        return _UNREADABLE
    record = _record_of_first_agent(variable.get())
    if record is None:  # a model that is used without a run
        return None
    guardrails = getattr(record.agent, "input_guardrails", ())
    return _UNDECIDED if any(each.run_in_parallel for each in guardrails) else None


def _run_variable() -> Any:
    module: Any = sys.modules.get("agents.run_internal.agent_tool_configuration")
    return getattr(module, "_current_run", None)


def _current_run() -> Any:
    variable = _run_variable()
    return None if variable is None else variable.get()


def _record_of_first_agent(run: Any) -> Any:
    """Return what the SDK records of the agent that a run began with: one object for each run."""
    return None if run is None else next(iter(run.resolutions.values()), None)


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
