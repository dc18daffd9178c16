"""The functions that a node of a graph, or a wrapper around its tool calls, is made of."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.base import RunnableBinding
from langchain_core.runnables.retry import RunnableRetry

_MARK = "__allows_speculation__"
_LIBRARIES = ("langchain", "langchain_core", "langgraph", "langsmith")


def mark(guard: Any) -> None:
    """Mark a middleware or function as one that decides nothing about tool calls."""
    marked = _own(guard)
    setattr(marked, _MARK, marked)


def is_marked(guard: Any) -> bool:
    """Whether ``guard`` or its class was marked by :func:`mark`, and not only what it wraps or inherits."""
    own = _own(guard)
    mark = attribute(own, _MARK)  # decorators copy the attributes of what they wrap
    return mark is not None and (mark is own or mark is type(own))


def _own(guard: Any) -> Any:
    return guard.__func__ if isinstance(guard, MethodType) else guard


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of any object of the user's; None if it has none or does not show it."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - proxies of what is not there yet raise errors of their own
        return None


def is_exactly(value: Any, *classes: type) -> bool:
    """Whether ``value`` is of one of ``classes``, no subclass, and has none of its methods replaced."""
    kind: Any = type(value)
    return kind in classes and _methods(kind).isdisjoint(vars(value))


@functools.cache  # of LangChain's own classes only
def _methods(kind: type) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if callable(attribute(kind, name)))


def unbound(runnable: Any) -> Any:
    """Return the runnable within LangChain's bindings of tags, names, arguments and retries."""
    while (
        is_exactly(runnable, RunnableBinding, RunnableRetry)
        and not runnable.config_factories
        and not (runnable.config or {}).get("callbacks")
    ):
        runnable = runnable.bound
    return runnable


def tool_node(runnable: Any) -> Any:
    """Return the ``ToolNode`` that a node runs; None also for one of a subclass or with another function."""
    from langgraph.prebuilt import ToolNode

    node = unbound(runnable)
    own = is_exactly(node, ToolNode) and (node.func, node.afunc) == (node._func, node._afunc)
    return node if own else None


def is_function(runnable: Any) -> bool:
    """Whether a node runs a function of its author's, and nothing around it."""
    from langgraph._internal._runnable import RunnableCallable

    return is_exactly(unbound(runnable), RunnableCallable, RunnableLambda)


def functions_of(runnable: Any) -> list[Any]:
    """Return the functions that a node runs, as the user wrote them, without LangChain's own.

    It is the runnable itself if it is marked, or is not LangChain's way to run a function.
    """
    runnable = unbound(runnable)
    if is_marked(runnable) or not is_function(runnable):
        return [runnable]
    return written_functions(attribute(runnable, "func"), attribute(runnable, "afunc"))


def written_functions(*functions: Any) -> list[Any]:
    """Return the functions that users wrote and LangChain has composed into ``functions``; skips None."""
    seen: set[int] = set()
    return [each for function in functions if function is not None for each in _written(function, seen)]


def _written(function: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the function; those in its closure if it is one in which LangChain has composed others."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial) and not is_marked(function):
        yield from _written(function.func, seen)
        parts: Iterable[Any] = (*function.args, *function.keywords.values())
    elif is_of_library(function) and len(layers(function)) == 1:
        parts = closure_of(function)
    else:
        yield function
        return
    for value in parts:
        if isinstance(value, FunctionType | MethodType | functools.partial):
            yield from _written(value, seen)


def layers(function: Any) -> list[Any]:
    """Return ``function`` and those that LangChain's decorators have wrapped into it, the outermost first."""
    found = [function]
    while is_of_library(found[-1]) and (inner := getattr(found[-1], "__wrapped__", None)) is not None:
        found.append(inner)
    return found


def closure_of(function: FunctionType) -> Iterable[Any]:
    """Return the values of the free variables of ``function`` that are assigned."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is not assigned yet
            continue


def is_of_library(function: Any) -> bool:
    """Whether a function's code is LangChain's: decorators copy the name of its module."""
    return isinstance(function, FunctionType) and top_package(function.__globals__["__name__"]) in _LIBRARIES


def top_package(module: str) -> str:
    """Return the first part of a module's name."""
    return module.partition(".")[0]
