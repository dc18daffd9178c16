"""Request priority: who is waiting for the answer (Agent.xpu §6.1: the dual queue).

A *reactive* request has a person waiting for it; a *proactive* one is background work that may be
delayed or preempted. The priority in force is a context variable, so that an agent's code needs no
new parameters::

    with priority(Priority.PROACTIVE):
        digest_new_mail()          # every model call inside is proactive

    @priority(Priority.PROACTIVE)
    async def index_folder(): ...
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Priority(enum.IntEnum):
    """Lower is served first. The values are what goes over the wire as ``priority``."""

    REACTIVE = 0
    PROACTIVE = 10

    @property
    def service_tier(self) -> str:
        """The ``service_tier`` an OpenAI-compatible endpoint is sent: ``"priority"`` or ``"flex"``."""
        return "priority" if self is Priority.REACTIVE else "flex"


_current: ContextVar[Priority] = ContextVar("agentrt_priority", default=Priority.REACTIVE)


def current_priority() -> Priority:
    """The priority in force here; reactive unless an enclosing :func:`priority` says otherwise."""
    return _current.get()


@contextmanager
def priority(value: Priority) -> Iterator[Priority]:
    """Set the priority inside a ``with`` block or, used as a decorator, inside a function."""
    token = _current.set(value)
    try:
        yield value
    finally:
        _current.reset(token)
