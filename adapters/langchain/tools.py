"""LangChain tools that can be run early and claim their early runs by ``tool_call_id``."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import Tool as SingleInputTool
from pydantic import PrivateAttr

from agentrt.errors import NotSpeculableError
from agentrt.tools.speculable import MARK, Invocation, SpeculableOptions, SpeculableTool

from .scopes import scope_of_run

AnyTool = TypeVar("AnyTool", bound=BaseTool)
_CALL = "__agentrt_call__"


@dataclass(frozen=True, slots=True)
class _Call:
    """Which call a run of the tool answers, and with which validated arguments."""

    id: str | None
    invocation: Invocation


def make_speculable(tool: AnyTool, options: SpeculableOptions) -> AnyTool:
    """Return a speculable copy of ``tool``, still an instance of its class."""
    _refuse_injected(tool)
    copy = tool.model_copy()
    base = type(tool).__dict__.get("_agentrt_base", type(tool))
    object.__setattr__(copy, "__class__", _speculable_class(base))
    copy._agentrt = SpeculableTool(
        tool.name,
        bind=functools.partial(_bind, base, copy),
        call=functools.partial(base._run, copy, **_config_for(tool)) if _has_sync(tool) else None,
        acall=functools.partial(base._arun, copy, **_config_for(tool)) if _has_async(base, tool) else None,
        options=options,
    )
    return copy


@functools.cache
def _speculable_class(base: type[BaseTool]) -> type[BaseTool]:
    """Return a subclass of ``base`` that claims speculations; it goes by the name of ``base``.

    LangChain validates the arguments in ``_to_args_and_kwargs``, which also learns the call's id, and
    then runs the tool by ``_run`` or ``_arun``, inside its callbacks and its packing of the result. So
    the first notes the call and the others claim: tracing, error handling and artifacts are untouched.
    """

    def _to_args_and_kwargs(
        self: Any, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = base._to_args_and_kwargs(self, tool_input, tool_call_id)
        return args, {**kwargs, _CALL: _Call(tool_call_id, Invocation(args, dict(kwargs)))}

    # LangChain reads the signatures of these two, which wraps() keeps.
    @functools.wraps(base._run)
    def _run(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = kwargs.pop(_CALL, None)
        run = functools.partial(base._run, self, *args, **kwargs)
        if call is None:
            return run()
        return self._agentrt.redeem(call.id, call.invocation, run, scope_of_run())

    @functools.wraps(base._arun)
    async def _arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = kwargs.pop(_CALL, None)
        run = functools.partial(base._arun, self, *args, **kwargs)
        if call is None:
            return await run()
        return await self._agentrt.aredeem(call.id, call.invocation, run, scope_of_run())

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __module__=base.__module__,
            __qualname__=base.__qualname__,
            __doc__=base.__doc__,
            __annotations__={"_agentrt_base": ClassVar[type[BaseTool]], "_agentrt": SpeculableTool},
            _agentrt_base=base,
            _agentrt=PrivateAttr(),
            _to_args_and_kwargs=_to_args_and_kwargs,
            _run=_run,
        )
        namespace[MARK] = property(lambda self: self._agentrt)
        if base._arun is not BaseTool._arun:  # the default comes by way of _run
            namespace["_arun"] = _arun

    return types.new_class(base.__name__, (base,), {}, fill)


def _bind(base: type[BaseTool], tool: BaseTool, arguments: Mapping[str, Any]) -> Invocation:
    args, kwargs = base._to_args_and_kwargs(tool, dict(arguments), None)
    return Invocation(args, kwargs)


def _config_for(tool: BaseTool) -> dict[str, Any]:
    # These two classes demand a config only to hand it to a function that asks for it; ours may not.
    return {"config": RunnableConfig()} if isinstance(tool, (StructuredTool, SingleInputTool)) else {}


def _has_sync(tool: BaseTool) -> bool:
    return getattr(tool, "func", True) is not None


def _has_async(base: type[BaseTool], tool: BaseTool) -> bool:
    if isinstance(tool, (StructuredTool, SingleInputTool)):
        return tool.coroutine is not None
    return base._arun is not BaseTool._arun


def _refuse_injected(tool: BaseTool) -> None:
    """Refuse tools that need what only the real call can give them."""
    accepted = tool.args_schema if isinstance(tool.args_schema, dict) else tool.get_input_schema()
    injected = sorted(_fields(accepted) - _fields(tool.tool_call_schema) | tool._injected_args_keys)
    if injected:
        raise NotSpeculableError(
            f"{tool.name} has injected arguments {injected}: state, store, runtime or the call's id exist "
            "only once the model has made the call. Take what it needs as ordinary arguments."
        )
    functions = [getattr(tool, "func", None), getattr(tool, "coroutine", None)]
    if not any(functions):
        functions = [type(tool)._run, type(tool)._arun]
    for function in filter(None, functions):
        needed = _call_context_parameters(function)
        if needed:
            raise NotSpeculableError(
                f"{tool.name} takes {needed}, which belongs to the real call. "
                "Take what it needs as ordinary arguments."
            )


def _fields(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        return set(schema.get("properties", ()))
    fields = getattr(schema, "model_fields", None)
    return set(schema.__fields__ if fields is None else fields)  # a model of pydantic 1 has only the former


def _call_context_parameters(function: Callable[..., Any]) -> list[str]:
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # LangChain ignores what it cannot resolve, too
        hints = {}
    taken = [
        name
        for name in inspect.signature(function).parameters
        if RunnableConfig in (hints.get(name), *typing.get_args(hints.get(name)))
    ]
    return taken + ["callbacks"] * ("callbacks" in inspect.signature(function).parameters)
