"""Functions that claim the speculations of their calls, whoever calls them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .scopes import current_scope
from .speculable_tool import SpeculableTool

_INNER = "__agentrt_inner__"
_running: ContextVar[SpeculableTool | None] = ContextVar("agentrt_running", default=None)


def claiming_function(function: Callable[..., Any], tool: SpeculableTool) -> Callable[..., Any]:
    """Return ``function``, one of ``tool``, as a function that is answered from the speculation of its call.

    It has the name, documentation, annotations and signature of ``function``, and is a coroutine function if
    that is one. A call without a speculation runs ``function``, also with arguments that the tool refuses.
    """
    signature = inspect.signature(function)

    def key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return tool.key(tool.bind(signature.bind(*args, **kwargs).arguments))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def claiming(*args: Any, **kwargs: Any) -> Any:
            if _running.get() is tool:
                return await function(*args, **kwargs)
            run = functools.partial(function, *args, **kwargs)
            return await tool.aclaim(None, functools.partial(key, args, kwargs), run, current_scope())

    else:

        @functools.wraps(function)
        def claiming(*args: Any, **kwargs: Any) -> Any:
            if _running.get() is tool:
                return function(*args, **kwargs)
            run = functools.partial(function, *args, **kwargs)
            return tool.claim(None, functools.partial(key, args, kwargs), run, current_scope())

    setattr(claiming, _INNER, function)
    return claiming


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that :func:`claiming_function` was given; ``function`` itself if it is another."""
    inner: Callable[..., Any] = getattr(function, _INNER, function)
    # A decorator of the user may have copied the attribute.
    return inner if inner is getattr(function, "__wrapped__", None) else function


@contextmanager
def running(tool: SpeculableTool) -> Iterator[None]:
    """Mark the block as a run of ``tool``: its claiming functions run there without a claim of their own."""
    token = _running.set(tool)
    try:
        yield
    finally:
        _running.reset(token)
