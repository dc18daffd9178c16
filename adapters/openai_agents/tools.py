"""Function tools that can be run speculatively and claim their speculations by the call's id."""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agents import FunctionTool
from agents.function_schema import FuncSchema, function_schema

from agentrt.adapting import Invocation, SpeculableOptions, SpeculableTool, plain_function
from agentrt.errors import NotSpeculableError

from ..transparent_subclass import plain_class, transparent_subclass

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def make_speculable(tool: FunctionTool, options: SpeculableOptions) -> FunctionTool:
    """Return a speculable copy of a tool made by ``@function_tool``.

    A speculation runs the tool's function with the arguments that the SDK's own model of its parameters
    validates: a coroutine function on the event loop of the run, any other in a thread, as in a real call.
    All else belongs to the real call, which the copy answers with the function's result: parsing, guardrails,
    hooks, spans, the timeout, and the message that stands for an error.
    """
    function = _function_of(tool)
    is_coroutine = inspect.iscoroutinefunction(function)
    described = SpeculableTool(
        tool.name,
        bind=_binder(_schema_of(tool, function)),
        call=None if is_coroutine else function,
        acall=function if is_coroutine else None,
        options=options,
    )
    copied: Any = copy.copy(tool)
    copied.on_invoke_tool = _claiming(copied.on_invoke_tool, described)
    copied.__speculable__ = described
    return copied  # type: ignore[no-any-return]


def described_by(tool: FunctionTool) -> SpeculableTool | None:
    """Return the tool's description, also that of a copy; None if it does not claim speculations."""
    described = getattr(tool.on_invoke_tool, "_agentrt", None)
    return described if isinstance(described, SpeculableTool) else None


def _function_of(tool: FunctionTool) -> Callable[..., Any]:
    function = getattr(tool, "__wrapped__", None)
    if not inspect.isroutine(function):
        raise NotSpeculableError(
            f"{tool.name} is not made by @function_tool of a function: what it runs gets the context of the "
            "real call. Decorate a function that takes what it needs as ordinary arguments."
        )
    if tool.output_json_schema is not None:
        raise NotSpeculableError(
            f"{tool.name} has an output schema, by which the SDK checks the result of the real call. Leave "
            "out output_type, output_json_schema and allowed_callers."
        )
    return plain_function(function)


def _schema_of(tool: FunctionTool, function: Callable[..., Any]) -> FuncSchema:
    schema = function_schema(
        function, name_override=tool.name, use_docstring_info=False, strict_json_schema=False
    )
    if schema.takes_context:
        raise NotSpeculableError(
            f"{tool.name} takes the context of the run, which other calls may change before the real call. "
            "Take what it needs as ordinary arguments."
        )
    for parameter in schema.signature.parameters.values():
        if parameter.kind not in _NAMED:
            raise NotSpeculableError(
                f"{tool.name} takes {parameter}, which a model cannot fill in by name. Use named parameters."
            )
    return schema


def _binder(schema: FuncSchema) -> Callable[[Mapping[str, Any]], Invocation]:
    def bind(arguments: Mapping[str, Any]) -> Invocation:
        validated = schema.params_pydantic_model(**arguments)
        return Invocation(kwargs={name: vars(validated)[name] for name in schema.signature.parameters})

    return bind


if TYPE_CHECKING:

    class _Base:
        """What the SDK calls to run a tool."""

        async def __call__(self, ctx: Any, input: str) -> Any: ...
        def __agents_bind_function_tool__(self, function_tool: FunctionTool) -> Any: ...
else:
    _Base = object  # at run time ``super()`` is the SDK's class


class ClaimingInvoker(_Base):
    """Mixin of what the SDK calls to run a tool: it answers a call from its speculation, if there is one."""

    if TYPE_CHECKING:
        _agentrt: SpeculableTool

    async def __call__(self, ctx: Any, input: str) -> Any:
        """Return the tool's result for a call with the arguments ``input``, as JSON text."""
        run = functools.partial(super().__call__, ctx, input)
        key = functools.partial(_key, self._agentrt, input)
        return await self._agentrt.aclaim(getattr(ctx, "tool_call_id", None), key, run)

    def __agents_bind_function_tool__(self, function_tool: FunctionTool) -> Any:
        """Return what runs ``function_tool``, a copy of the tool, and claims the same speculations."""
        bound = super().__agents_bind_function_tool__(function_tool)
        return bound if bound is self else _claiming(bound, self._agentrt)


def _claiming(invoker: Any, described: SpeculableTool) -> Any:
    base: Any = plain_class(type(invoker))
    claiming: Any = object.__new__(_claiming_class(base))
    claiming.__dict__.update(invoker.__dict__, _agentrt=described)
    return claiming


@functools.cache
def _claiming_class(base: type) -> type:
    return transparent_subclass(base, ClaimingInvoker)


def _key(described: SpeculableTool, arguments: str) -> str:
    return described.key_of(json.loads(arguments) if arguments else {})
