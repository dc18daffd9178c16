"""Scopes of runs: a speculation can be claimed only within its own run."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_scope: ContextVar[Hashable | None] = ContextVar("agentrt_scope", default=None)


@contextmanager
def run_scope(key: Hashable) -> Iterator[None]:
    """Mark the work inside the block as the run ``key``, such as the id of a conversation or user.

    A call is answered only from a speculation of its own run, even if an endpoint gives calls of different
    runs equal ids. A :class:`~agentrt.SpeculationSession` is a run of its own, and LangGraph's runs have
    scopes already; use this where one chat model or client serves many users without either.
    """
    previous = _scope.get()
    _scope.set(key)
    try:
        yield
    finally:
        _scope.set(previous)  # no token: a session may be closed in another context than it was opened in


def current_scope() -> Hashable | None:
    """Return the key of the innermost :func:`run_scope`, or None."""
    return _scope.get()
