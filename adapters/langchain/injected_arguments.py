"""Arguments of LangChain tools that a framework adds to the real call, such as LangGraph's runtime."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from langchain_core.tools import BaseTool, InjectedToolCallId

from agentrt.errors import NotSpeculableError, SpeculationError

_CALL_ID = "tool_call_id"


def injected_arguments(tool: BaseTool) -> frozenset[str]:
    """Return the names of the tool's injected arguments, all of which have defaults.

    Raises:
        NotSpeculableError: one has no default, or is the call's id: a speculative run has neither.
    """
    schema = tool.args_schema if isinstance(tool.args_schema, dict) else tool.get_input_schema()
    injected = (_names(schema) - _names(tool.tool_call_schema)) | tool._injected_args_keys
    needed = sorted(name for name in injected if not _is_optional(tool, schema, name))
    if needed:
        raise NotSpeculableError(
            f"{tool.name} has injected arguments {needed} without a default: state, store, runtime or the "
            "call's id exist only once the model has made the call. Take what it needs as ordinary "
            "arguments, or give them a default."
        )
    return frozenset(injected)


@contextmanager
def standing_in(tool: str, injected: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield values for the injected arguments of a speculative run, which fails if it uses one.

    The real call may have other values than the defaults, so a result that depends on one cannot be claimed.
    A tool that hands the argument on without reading it, as those of MCP servers do, does not depend on it.

    Raises:
        SpeculationError: at the end of the block, if the tool has used one, also where it has caught the
            error that this raised.
    """
    used: list[str] = []

    def use(name: str) -> NoReturn:
        used.append(name)
        raise SpeculationError(_message(tool, name))

    yield {name: _StandIn(functools.partial(use, name)) for name in injected}
    if used:
        raise SpeculationError(_message(tool, used[0]))


def _message(tool: str, name: str) -> str:
    return f"{tool} uses {name}, which belongs to the real call. It runs when the model calls it."


class _StandIn:
    """Value of an injected argument in a speculative run: whatever uses it calls a function that raises."""

    def __init__(self, use: Callable[[], NoReturn]) -> None:
        object.__setattr__(self, "_use", use)

    def __getattribute__(self, name: str) -> NoReturn:
        _use(self)


def _use(stand_in: _StandIn, *_: Any) -> NoReturn:
    use: Callable[[], NoReturn] = object.__getattribute__(stand_in, "_use")
    use()


# Python looks these up in the class. Operators that ``object`` does not have raise a TypeError by themselves.
for _name in (
    *("__bool__", "__call__", "__contains__", "__delattr__", "__dir__", "__eq__", "__format__"),
    *("__getitem__", "__hash__", "__iter__", "__len__", "__ne__", "__reduce_ex__", "__repr__"),
    *("__setattr__", "__str__"),
):
    setattr(_StandIn, _name, _use)


def _names(schema: Any) -> set[str]:
    return set(schema.get("properties", ())) if isinstance(schema, dict) else set(_fields(schema))


def _fields(schema: Any) -> dict[str, Any]:
    """Return the fields of a model of pydantic; one of version 1 has no ``model_fields``."""
    fields: dict[str, Any] | None = getattr(schema, "model_fields", None)
    return schema.__fields__ if fields is None else fields


def _is_optional(tool: BaseTool, schema: Any, name: str) -> bool:
    """Whether a call without the argument is valid; LangChain refuses one without the call's id."""
    field = None if isinstance(schema, dict) else _fields(schema).get(name)
    if field is None:
        return name != _CALL_ID and all(_has_default(function, name) for function in functions_of(tool))
    metadata = getattr(field, "metadata", ())
    if name == _CALL_ID or any(InjectedToolCallId in (each, type(each)) for each in metadata):
        return False
    return not (field.is_required() if hasattr(field, "is_required") else field.required)


def _has_default(function: Callable[..., Any], name: str) -> bool:
    parameter = inspect.signature(function).parameters.get(name)
    return parameter is None or parameter.default is not parameter.empty


def functions_of(tool: BaseTool) -> list[Callable[..., Any]]:
    """Return the functions that a call of the tool may run: its own, or the methods of its class."""
    given = [getattr(tool, "func", None), getattr(tool, "coroutine", None)]
    functions: list[Callable[..., Any]] = [each for each in given if each is not None]
    return functions or [type(tool)._run, type(tool)._arun]
