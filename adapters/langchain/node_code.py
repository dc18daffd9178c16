"""The functions that a node of a graph, or a wrapper around its tool calls, is made of."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

_MARK = "__allows_speculation__"
_LIBRARIES = ("langchain", "langchain_core", "langgraph", "langsmith")


def mark(guard: Any) -> None:
    """Mark a middleware or function as one that decides nothing about tool calls."""
    setattr(guard.__func__ if isinstance(guard, MethodType) else guard, _MARK, True)


def is_marked(guard: Any) -> bool:
    """Whether ``guard`` was marked by :func:`mark`."""
    return attribute(guard, _MARK) is True  # decorators copy the marks of what they wrap


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of any object of the user's; None if it has none or does not show it."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - proxies of what is not there yet raise errors of their own
        return None


def functions_of(runnable: Any) -> list[Any]:
    """Return the functions that a node runs, as the user wrote them; the runnable itself if it has none."""
    while hasattr(runnable, "bound"):
        runnable = runnable.bound
    given = [getattr(runnable, name, None) for name in ("func", "afunc")]
    found = [function for each in given if each is not None for function in _written(each, set())]
    return found or [runnable]


def wrapped_functions(wrapper: Any) -> list[Any]:
    """Return the functions that a ``ToolNode`` wraps around its tool calls, as the user wrote them."""
    return [] if wrapper is None else list(_written(wrapper, set()))


def _written(function: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the function; those in its closure if it is one in which LangChain has composed others."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        yield from _written(function.func, seen)
    elif isinstance(function, FunctionType) and _is_library(function) and len(layers(function)) == 1:
        for value in closure_of(function):
            if isinstance(value, FunctionType | MethodType | functools.partial):
                yield from _written(value, seen)
    else:
        yield function


def layers(function: Any) -> list[Any]:
    """Return ``function`` and those that decorators have wrapped into it, the outermost first."""
    found = [function]
    while (inner := getattr(found[-1], "__wrapped__", None)) is not None:
        found.append(inner)
    return found


def closure_of(function: FunctionType) -> Iterable[Any]:
    """Return the values of the free variables of ``function`` that are assigned."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is not assigned yet
            continue


def _is_library(function: Any) -> bool:
    return top_package(str(getattr(function, "__module__", ""))) in _LIBRARIES


def top_package(module: str) -> str:
    """Return the first part of a module's name."""
    return module.partition(".")[0]
