"""LangChain tools that can be run speculatively, and runs of tools that write.

The first claim their speculations by ``tool_call_id``; LangChain reports each run of the second.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Unpack
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import Tool as SingleInputTool
from langchain_core.tracers.context import register_configure_hook
from pydantic import PrivateAttr

from agentrt.adapting import (
    Invocation,
    SpeculableKeywords,
    SpeculableOptions,
    SpeculableTool,
    claiming_function,
    current_scope,
    plain_function,
    running,
    speculable_tool,
    write_log,
)
from agentrt.argument_checks import check_collection, check_setting
from agentrt.errors import ConfigurationError, NotSpeculableError

from ...server_tools import check_trusted, only_reads, options_of
from ...transparent_subclass import plain_class, transparent_subclass
from .injected_arguments import InjectedArguments, injected_arguments, stand_ins

AnyTool = TypeVar("AnyTool", bound=BaseTool)
_CALL = "__agentrt_call__"


@dataclass(frozen=True, slots=True)
class _Call:
    """The call that a run of the tool answers, and its validated arguments."""

    id: str | None
    invocation: Invocation


def make_speculable(tool: AnyTool, options: SpeculableOptions) -> AnyTool:
    """Return a speculable copy of ``tool``, still an instance of its class."""
    _refuse_own_entrances(tool)
    if options.invalidated_by:
        observe_writes()
    copy = tool.model_copy()
    object.__setattr__(copy, "__class__", _speculable_class(plain_class(type(tool))))
    _describe(copy, options)
    return copy


def _refuse_own_entrances(tool: BaseTool) -> None:
    """Raise :class:`NotSpeculableError` if a class of the user's decides before ``_run`` whether it runs."""
    for name in ("invoke", "ainvoke", "run", "arun"):
        owner = next(kind for kind in plain_class(type(tool)).__mro__ if name in vars(kind))
        if owner.__module__.partition(".")[0] not in ("langchain_core", "agentrt"):
            raise NotSpeculableError(
                f"{owner.__name__} has a method {name}() of its own, which a speculative run passes by. Put "
                "what it does into _run() and _arun(), or leave the tool as it is."
            )


def _describe(tool: Any, options: SpeculableOptions) -> None:
    """Let ``tool``, of a speculable class, claim speculations of its own."""
    base = plain_class(type(tool))
    injected = injected_arguments(tool, options.reads)
    if injected.names and options.prepare is not None:
        raise NotSpeculableError(
            f"{tool.name} has injected arguments {sorted(injected.names)}, which its prepare would run "
            "without. Take what it needs as ordinary arguments."
        )
    call, acall = _runners(base, tool)
    speculative_call, speculative_acall = _runners(base, tool, injected)
    described = tool._agentrt = SpeculableTool(
        tool.name,
        bind=functools.partial(_bind, base, tool, injected),
        call=call,
        acall=acall,
        options=options,
        speculative_call=speculative_call,
        speculative_acall=speculative_acall,
        injected=injected.names,
        known=None if injected.read is None else injected.read.of_call,
    )
    for name in ("func", "coroutine"):  # where the tool has one: agents may call it instead of the tool
        function = getattr(tool, name, None)
        if inspect.isroutine(function):
            setattr(tool, name, claiming_function(plain_function(function), described))


if TYPE_CHECKING:
    _Base = BaseTool
else:
    _Base = object  # at run time ``super()`` is the class of the user's tool


class SpeculableMixin(_Base):
    """Mixin of a LangChain tool that claims speculations.

    LangChain validates the arguments in ``_to_args_and_kwargs``, which also takes the call's id, and then
    runs the tool by ``_run`` or ``_arun``, inside its callbacks and its packing of the result. The first adds
    the call to the arguments and the others claim with it: tracing, error handling and artifacts stay.
    """

    if TYPE_CHECKING:
        _agentrt: SpeculableTool

    @property
    def __speculable__(self) -> SpeculableTool:
        """The tool as a session sees it."""
        return self._agentrt

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Any:
        """Return a copy with speculations of its own, because it may be changed."""
        copied = super().__deepcopy__(memo)
        _describe(copied, self._agentrt.options)
        return copied

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Any:
        """Return a copy; a changed one has speculations of its own."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            _describe(copied, self._agentrt.options)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise :class:`ConfigurationError`: speculations belong to this process."""
        raise ConfigurationError(
            f"the speculable tool {self.name} cannot be pickled. Pickle the plain tool, and pass it to "
            "speculable() where it is loaded."
        )

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = super()._to_args_and_kwargs(tool_input, tool_call_id)
        return args, {**kwargs, _CALL: _Call(tool_call_id, Invocation(args, dict(kwargs)))}

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        call = kwargs.pop(_CALL, None)
        method = super()._run  # type: ignore[safe-super]

        def run() -> Any:
            with running(self._agentrt):
                return method(*args, **kwargs)

        if call is None:
            return run()
        key = functools.partial(self._agentrt.call_key, call.invocation, kwargs)
        return self._agentrt.claim(call.id, key, run)


class SpeculableAsyncMixin(SpeculableMixin):
    """Mixin of a tool with an async implementation of its own; the default one calls ``_run``."""

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        call = kwargs.pop(_CALL, None)
        method = super()._arun

        async def run() -> Any:
            with running(self._agentrt):
                return await method(*args, **kwargs)

        if call is None:
            return await run()
        key = functools.partial(self._agentrt.call_key, call.invocation, kwargs)
        return await self._agentrt.aclaim(call.id, key, run)


@functools.cache
def _speculable_class(base: type[BaseTool]) -> type[BaseTool]:
    """Return a subclass of ``base`` that claims speculations."""
    mixin = SpeculableMixin if base._arun is BaseTool._arun else SpeculableAsyncMixin
    return transparent_subclass(base, mixin, _agentrt=PrivateAttr())


def _bind(
    base: type[BaseTool], tool: BaseTool, injected: InjectedArguments, arguments: Mapping[str, Any]
) -> Invocation:
    # A model has no say in what is injected: agents drop such arguments of its call, too.
    own = {name: value for name, value in arguments.items() if name not in injected.names}
    args, kwargs = base._to_args_and_kwargs(tool, {**own, **injected.placeholders}, None)
    for name in injected.placeholders:
        kwargs.pop(name, None)
    # Only a tool with a single input takes it by position.
    named = {**dict(zip(tool.args, args, strict=False)), **kwargs} if args else None
    return Invocation(args, kwargs, named, None if injected.read is None else injected.read.of_run())


def _runners(
    base: type[BaseTool], tool: Any, injected: InjectedArguments | None = None
) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    """Return what runs the tool, sync and async: speculatively, if ``injected`` are its injected arguments.

    Each is None where the tool has no implementation of that kind.
    """
    wraps = isinstance(tool, (StructuredTool, SingleInputTool))
    # These classes require a config, and pass it to functions with a parameter for it only.
    config = {"config": RunnableConfig()} if wraps else {}

    def with_stand_ins(kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**config, **kwargs, **({} if injected is None else stand_ins(injected))}

    def run(*args: Any, **kwargs: Any) -> Any:
        with running(tool._agentrt):
            return base._run(tool, *args, **with_stand_ins(kwargs))

    async def arun(*args: Any, **kwargs: Any) -> Any:
        with running(tool._agentrt):
            return await base._arun(tool, *args, **with_stand_ins(kwargs))

    is_async = tool.coroutine is not None if wraps else base._arun is not BaseTool._arun
    return run if getattr(tool, "func", True) is not None else None, arun if is_async else None


class WriteObserver(BaseCallbackHandler):
    """Notes when a run of a watched tool begins and ends, whoever has called it and with what.

    The calls in a model's answer are noted when it is bound. This adds those that are made otherwise: calls
    into which a person has edited another call, and calls of a model that does not speculate.
    """

    run_inline = True
    ignore_llm = ignore_chain = ignore_retriever = ignore_chat_model = ignore_custom_event = True

    def __init__(self) -> None:
        """Create an observer without runs."""
        self._running: dict[UUID, tuple[Hashable, str]] = {}

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **_: Any) -> None:
        """Note a write that begins: results read until now are outdated."""
        name = str((serialized or {}).get("name"))
        if write_log.watches(name):
            self._running[run_id] = run = current_scope(), name
            write_log.note(*run)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Note the end of a write, also of one that failed: what was read meanwhile is outdated."""
        run = self._running.pop(run_id, None)
        if run is not None:
            write_log.note(*run)

    on_tool_error = on_tool_end  # type: ignore[assignment]  # its first argument is of another type


# One observer for every context: a write outdates the reads of its run, wherever it is called.
_observer: ContextVar[WriteObserver | None] = ContextVar(
    "agentrt_write_observer",
    default=WriteObserver(),  # noqa: B039 - of all contexts
)


@functools.cache
def observe_writes() -> None:
    """Let LangChain report runs of tools to the process's write log, from now on."""
    register_configure_hook(_observer, inheritable=False)


def speculable_mcp_tools(
    tools: Iterable[BaseTool], *, trusted: bool, **options: Unpack[SpeculableKeywords]
) -> list[BaseTool]:
    """Return the tools of MCP servers, with those speculable that have a true ``readOnlyHint``.

    ::

        tools = speculable_mcp_tools(await client.get_tools(server_name="notes"), trusted=True)

    The hint is the server's own claim, so it counts only for servers that you trust; for a tool of another
    one use ``speculable(tool)``. All other tools are returned as they are, and so are tools that are
    speculable already. A call of a tool without the hint outdates the speculations from before it, unless
    ``invalidated_by`` says which tools do. A tool with a true ``openWorldHint`` passes its arguments on to
    others: it ``discloses`` them, unless that option is given.

    ``options`` are those of :func:`agentrt.speculable`, for all tools.

    Raises:
        ConfigurationError: the servers are not trusted, ``tools`` are none, or an option is unknown or has an
            invalid value.
    """
    check_trusted(trusted)
    check_collection("tools", tools, "the list of tools that langchain-mcp-adapters has loaded")
    given = list(tools)
    for tool in given:
        check_setting("tools", tool, BaseTool, "the tools that langchain-mcp-adapters has loaded")
    writers = tuple(tool.name for tool in given if not only_reads(tool.metadata))
    chosen = {"invalidated_by": writers, **dict[str, Any](options)}
    return [
        make_speculable(tool, options_of(tool.metadata, chosen))
        if only_reads(tool.metadata) and speculable_tool(tool) is None
        else tool
        for tool in given
    ]
