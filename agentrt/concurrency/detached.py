"""The context in which speculation runs: the caller's, without the framework's own run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context

# LangChain keeps the configuration of the run here: its callbacks, streams and, in LangGraph, the answers of
# people to interrupts. The core imports no framework, so the variable is found by its name.
VARIABLES_OF_RUNS = ("child_runnable_config",)

ContextSource = Callable[[], Context]
"""Returns a copy of the current context in which one framework reports nothing to the user."""

_sources: list[ContextSource] = []


def register_context_source(source: ContextSource) -> None:
    """Let speculation, in whatever adapter or session, run in the context that ``source`` returns."""
    _sources.append(source)


def detached_context() -> Context:
    """Return a copy of this context in which code is not part of a LangChain or LangGraph run.

    Most speculations are no part of it: an ``interrupt`` of a wrong draft would take the answer that a person
    gives to the real call. Outside of a run it raises, and the speculation is a miss.
    Nor does it report to what a registered source has switched off, such as token counts and tracers.
    """
    context = copy_context()
    for variable in context:
        if variable.name in VARIABLES_OF_RUNS:
            context.run(variable.set, None)
    for source in _sources:
        context = context.run(source)
    return context
