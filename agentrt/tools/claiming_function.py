"""Functions that claim the speculations of their calls, whoever calls them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .speculable_tool import CallKey, SpeculableTool

_INNER = "__agentrt_inner__"
_CONVERTED = "validation converts the arguments that it was called with"
_running: ContextVar[SpeculableTool | None] = ContextVar("agentrt_running", default=None)


def claiming_function(function: Callable[..., Any], tool: SpeculableTool) -> Callable[..., Any]:
    """Return ``function``, one of ``tool``, as a function that is answered from the speculation of its call.

    It has the name, documentation, annotations and signature of ``function``, and is a coroutine function if
    that is one. A call without a speculation runs ``function``, also with arguments that the tool refuses or
    converts: a speculation runs with validated arguments, and ``function`` with those that it is given.
    """
    signature = inspect.signature(function)

    def key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallKey:
        given = signature.bind(*args, **kwargs)
        invocation = tool.bind(_by_name(given, tool.injected))
        validated = signature.bind_partial(*invocation.args, **invocation.kwargs)  # without what is injected
        given.apply_defaults()
        validated.apply_defaults()
        unconverted = _alike(_by_name(given, tool.injected), _by_name(validated, tool.injected))
        arguments = given.arguments
        return tool.call_key(invocation, arguments, None if unconverted else _CONVERTED)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def claiming(*args: Any, **kwargs: Any) -> Any:
            if _running.get() is tool:
                return await function(*args, **kwargs)
            run = functools.partial(function, *args, **kwargs)
            return await tool.aclaim(None, functools.partial(key, args, kwargs), run)

    else:

        @functools.wraps(function)
        def claiming(*args: Any, **kwargs: Any) -> Any:
            if _running.get() is tool:
                return function(*args, **kwargs)
            run = functools.partial(function, *args, **kwargs)
            return tool.claim(None, functools.partial(key, args, kwargs), run)

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


def _by_name(bound: inspect.BoundArguments, injected: frozenset[str]) -> dict[str, Any]:
    """Return arguments by name, also those in ``**kwargs``, without those that are injected."""
    arguments = {name: value for name, value in bound.arguments.items() if name not in injected}
    for parameter in bound.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(parameter.name, {}))
    return arguments


def _alike(given: Any, validated: Any) -> bool:
    """Whether no function can distinguish two arguments: equal in type and value, deeply."""
    if given is validated:
        return True
    if type(given) is not type(validated):
        return False
    if isinstance(given, Mapping):
        return _alike(list(given.items()), list(validated.items()))
    if isinstance(given, (list, tuple)):
        return len(given) == len(validated) and all(map(_alike, given, validated))
    if isinstance(given, (set, frozenset)):
        return {(type(each), each) for each in given} == {(type(each), each) for each in validated}
    if isinstance(given, float):
        return repr(given) == repr(validated)  # 0.0 == -0.0
    return bool(given == validated)
