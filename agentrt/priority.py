"""Request priority (Agent.xpu §6.1: the dual queue).

A *reactive* request has a person waiting for the answer; a *proactive* request is background work that may
be delayed or preempted. The current priority is a context variable, so that an agent's code needs no new
parameters::

    with priority(Priority.PROACTIVE):
        digest_new_mail()          # every model call inside is proactive

    @priority(Priority.PROACTIVE)
    async def index_folder(): ...
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, ParamSpec, TypeVar, cast

from .errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")


class Priority(enum.IntEnum):
    """Lower values are served first. :mod:`agentrt.dialects` has how endpoints are sent them."""

    REACTIVE = 0
    PROACTIVE = 10

    @property
    def service_tier(self) -> str:
        """The ``service_tier`` for OpenAI-compatible endpoints: ``"priority"`` or ``"flex"``."""
        return "priority" if self is Priority.REACTIVE else "flex"


PRIORITY_HEADER = "x-agentrt-priority"
"""The header by which ``agentrt serve`` takes and returns a priority, by its name in lower case."""

_current: ContextVar[Priority | None] = ContextVar("agentrt_priority", default=None)


def named_priority() -> Priority | None:
    """Return the priority of the innermost :func:`priority`; None if there is none."""
    return _current.get()


def current_priority() -> Priority:
    """Return the priority of the innermost :func:`priority`; reactive if there is none."""
    return _current.get() or Priority.REACTIVE


class priority:
    """Set the priority inside a ``with`` block or, used as a decorator, inside a function, sync or async."""

    def __init__(self, value: Priority) -> None:
        """``value`` applies while the block or the decorated function runs.

        Raises:
            ConfigurationError: ``value`` is no priority.
        """
        try:
            self._value = Priority(value)
        except ValueError:
            raise ConfigurationError(
                "priority() takes Priority.REACTIVE or Priority.PROACTIVE. Give one of the two."
            ) from None
        self._tokens: list[Token[Priority | None]] = []

    def __enter__(self) -> Priority:
        """Set the priority."""
        self._tokens.append(_current.set(self._value))
        return self._value

    def __exit__(self, *exception: object) -> None:
        """Restore the previous priority."""
        _current.reset(self._tokens.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap ``function`` so that each call runs in a block of its own."""
        value = self._value
        if not callable(function):
            raise ConfigurationError("priority() decorates functions only. Use a with block for other code.")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                f"priority() cannot decorate a generator ({function.__name__}): its caller runs in between. "
                "Use a with block around what the generator does."
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                with priority(value):
                    return await function(*args, **kwargs)

            return cast("Callable[P, R]", run_async)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with priority(value):
                return function(*args, **kwargs)

        return run
