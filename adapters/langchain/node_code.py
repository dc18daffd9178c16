"""The functions that a node of a graph, or a wrapper around its tool calls, is made of."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

_MARK = "__allows_speculation__"
_LIBRARIES = ("langchain", "langchain_core", "langgraph", "langsmith")


def mark(guard: Any) -> None:
    """Mark a middleware or function as one that decides nothing about tool calls."""
    setattr(guard, _MARK, True)


def is_marked(guard: Any) -> bool:
    """Whether ``guard`` was marked by :func:`mark`."""
    return bool(getattr(guard, _MARK, False))  # decorators copy the marks of what they wrap


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
        for value in _closure_of(function):
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


def may_interrupt(function: Any) -> bool:
    """Whether the code of ``function``, or of a function of its module that it uses, names ``interrupt``."""
    plain = [getattr(layer, "__func__", layer) for layer in layers(function)]
    return any(isinstance(each, FunctionType) and _names_interrupt(each, set()) for each in plain)


def _names_interrupt(function: FunctionType, seen: set[int]) -> bool:
    from langgraph.types import interrupt

    if id(function) in seen or _is_library(function):
        return False
    seen.add(id(function))
    names = set(_names(function.__code__))
    used = [*map(function.__globals__.get, names), *_closure_of(function)]
    if "interrupt" in names or any(value is interrupt for value in used):
        return True
    helpers = [value for value in used if _is_helper(value, function)]
    return any(_names_interrupt(helper, seen) for helper in helpers)


def _is_helper(value: Any, function: FunctionType) -> bool:
    return isinstance(value, FunctionType) and value.__globals__ is function.__globals__


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _closure_of(function: FunctionType) -> Iterable[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is not assigned yet
            continue


def _is_library(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] in _LIBRARIES
