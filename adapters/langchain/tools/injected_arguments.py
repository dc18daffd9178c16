"""Arguments of LangChain tools that a framework adds to the real call, such as LangGraph's runtime."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langchain_core.tools import Tool as SingleInputTool

from agentrt.adapting import current_speculative_run
from agentrt.errors import NotSpeculableError

from .known_values import ReadArguments, StandIn

_CALL_ID = "tool_call_id"


@dataclass(frozen=True, slots=True)
class InjectedArguments:
    """The arguments of a tool that a framework adds to the real call, by the names of their parameters."""

    names: frozenset[str] = frozenset()
    placeholders: Mapping[str, Any] = field(default_factory=dict)
    """Values of those without a default, with which a speculative run's own arguments are validated."""
    read: ReadArguments | None = None
    """Those from which the tool reads what its run knows before the call; None if it says of none."""


def injected_arguments(tool: BaseTool, reads: frozenset[str]) -> InjectedArguments:
    """Return the tool's injected arguments; ``reads`` is its option.

    Raises:
        NotSpeculableError: one is not known before the call, as ``reads`` says of the runtime and the
            configuration, and has no default; or nothing is injected of which ``reads`` says so.
    """
    schema = tool.args_schema if isinstance(tool.args_schema, dict) else tool.get_input_schema()
    injected = (_names(schema) - _names(tool.tool_call_schema)) | tool._injected_args_keys
    needed = {name for name in injected if not _is_optional(tool, schema, name)}
    runtime_type = getattr(sys.modules.get("langgraph.prebuilt.tool_node"), "ToolRuntime", None)
    runtimes: frozenset[str] = frozenset()
    if reads and runtime_type is not None:
        runtimes = frozenset(
            name for name in injected if _mentions(_annotation(tool, schema, name), runtime_type)
        )
    config = _refuse_call_context(tool, may_have_config="configurable" in reads)
    if reads and not runtimes and config is None:
        raise NotSpeculableError(
            f"{tool.name} takes no ToolRuntime or RunnableConfig, so that it cannot read {sorted(reads)}. "
            "Leave out reads, or annotate the parameter."
        )
    if needed - runtimes:
        raise NotSpeculableError(
            f"{tool.name} has injected arguments {sorted(needed - runtimes)} without a default: state, "
            "store, runtime or the call's id exist only once the model has made the call. Take what it needs "
            "as ordinary arguments, give them a default, or, of a ToolRuntime, say what the tool reads: "
            "@speculable(reads=['context'])."
        )
    if not reads:
        return InjectedArguments(frozenset(injected))
    fields: Any = getattr(runtime_type, "__dataclass_fields__", {})
    placeholders = {name: runtime_type(**dict.fromkeys(fields)) for name in needed}  # type: ignore[misc]
    wrapped = isinstance(tool, (StructuredTool, SingleInputTool))
    read = ReadArguments(
        reads, runtimes, runtime_type or object, config, "config" if wrapped or config is None else config
    )
    return InjectedArguments(
        frozenset(injected) | ({config} if config is not None else set()), placeholders, read
    )


def stand_ins(injected: InjectedArguments) -> dict[str, Any]:
    """Return injected arguments for the speculative run around this, which fails if it uses one.

    The real call may have other values than the defaults, so a result that depends on one cannot be claimed.
    A tool that hands the argument on without reading it, as those of MCP servers do, does not depend on it.
    Of the arguments in ``injected.read``, what the run knows before the call can be used.
    """
    refuse = current_speculative_run().refuse
    known = {} if injected.read is None else injected.read.stand_ins(refuse)
    unknown = {name: StandIn(functools.partial(refuse, name)) for name in injected.names - known.keys()}
    return unknown | known


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


def _annotation(tool: BaseTool, schema: Any, name: str) -> Any:
    field = None if isinstance(schema, dict) else _fields(schema).get(name)
    if field is not None:
        return getattr(field, "annotation", None)
    return next((_hints(each).get(name) for each in functions_of(tool) if name in _hints(each)), None)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):  # LangChain ignores unresolved hints, too
        return {}


def _mentions(annotation: Any, kind: type) -> bool:
    """Whether an annotation is ``kind``, or a union or generic of it."""
    if kind in (annotation, typing.get_origin(annotation)):
        return True
    return any(_mentions(each, kind) for each in typing.get_args(annotation))


def _refuse_call_context(tool: BaseTool, *, may_have_config: bool) -> str | None:
    """Return the name of the parameter that takes the configuration of the call; None if there is none.

    Raises:
        NotSpeculableError: there is one and the tool ``may_have_config`` not, or one takes the callbacks.
    """
    config = None
    for function in functions_of(tool):
        hints = _hints(function)
        parameters = inspect.signature(function).parameters
        taken = [
            name
            for name in parameters
            if RunnableConfig in (hints.get(name), *typing.get_args(hints.get(name)))
        ]
        if may_have_config and len(taken) == 1 and hints[taken[0]] is RunnableConfig:
            (config,) = taken
            taken = []
        taken += ["callbacks"] * ("callbacks" in parameters)
        if taken:
            raise NotSpeculableError(
                f"{tool.name} takes {taken}, which belongs to the real call. Take what it needs as ordinary "
                "arguments, or, of a RunnableConfig, say what it reads: @speculable(reads=['configurable'])."
            )
    return config
