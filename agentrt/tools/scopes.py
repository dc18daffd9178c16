"""Whose run this is: what one run speculates, no other run can claim."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_scope: ContextVar[Hashable | None] = ContextVar("agentrt_scope", default=None)


@contextmanager
def run_scope(key: Hashable) -> Iterator[None]:
    """Say that what this thread or task does belongs to the run ``key``: a conversation's id, a user's.

    A call is answered only from a speculation of its own run, even where an endpoint gives the calls of
    different runs equal ids. A :class:`~agentrt.SpeculationSession` is a run of its own and LangGraph tells
    its runs apart, so this is for what knows neither: one chat model or client that serves many users.
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
