"""`@speculable`: the declaration that a tool may be run before the model has made its call."""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, Unpack, overload

from pydantic import TypeAdapter

from ..argument_checks import check_setting
from ..errors import InvalidRequestError, NotSpeculableError
from .speculable_tool import CallKey, Invocation, SpeculableKeywords, SpeculableOptions, SpeculableTool

Tool = TypeVar("Tool")
MARK = "__speculable__"


@overload
def speculable(tool: Tool, /, **options: Unpack[SpeculableKeywords]) -> Tool: ...
@overload
def speculable(**options: Unpack[SpeculableKeywords]) -> Callable[[Tool], Tool]: ...
def speculable(tool: Any = None, /, **options: Any) -> Any:
    """Declare that a tool is stateless and cheap, so that it may be run speculatively.

    Use it on a plain function or an object's method, ``speculable(notes.search)``, sync or async, on a
    LangChain tool, or above LangChain's ``@tool`` or
    ``@function_tool`` of the OpenAI Agents SDK, with or without :class:`SpeculableOptions` as keywords. A
    function that takes pydantic-ai's ``RunContext`` runs speculatively in its agents
    (:class:`agentrt.adapters.pydantic_ai.SpeculateTools`)::

        @speculable(ttl=10)
        @tool
        def search_notes(query: str) -> str: ...

    A function is returned as one with the same signature that is answered from the speculation of its call,
    if there is one; a framework's tool as a copy that is an instance of the same class. A sync function runs
    speculatively in a thread of its own, which Python cannot stop: if the call is not made, the function runs
    to its end and its result is dropped.

    Raises:
        NotSpeculableError: ``tool`` is not a tool, or needs something that only the real call has.
        ConfigurationError: an option is unknown or cannot work.
    """
    parsed = SpeculableOptions(**options)
    return functools.partial(_declare, options=parsed) if tool is None else _declare(tool, parsed)


def _declare(tool: Any, options: SpeculableOptions) -> Any:
    is_method = inspect.ismethod(tool)
    is_function = inspect.isfunction(tool) or is_method
    if is_function:
        _check_bound(tool)
        wrap = _wrapper_of(_first_parameter_type(tool), _ADAPTERS_WITH_CONTEXTS)
    else:
        wrap = _wrapper_of(type(tool), _ADAPTERS)
    if wrap is not None and is_method:
        raise NotSpeculableError(
            f"{tool.__name__} is a method that takes the context of a framework's run. Select the tool by "
            "its name in the adapter of the framework."
        )
    if wrap is not None:
        return wrap(tool, options)
    if not is_function:
        raise NotSpeculableError(
            f"{tool!r} is neither a function nor a tool of a supported framework. Decorate the function."
        )
    function = tool if is_method else plain_function(tool)
    described = _from_function(function, options)
    claiming = claiming_function(function, described)
    setattr(claiming, MARK, described)
    return claiming


def _check_bound(function: Callable[..., Any]) -> None:
    """Raise :class:`NotSpeculableError` for a function in a class that takes its object or class."""
    owner = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters), None)
    if owner and not owner.endswith("<locals>") and first in ("self", "cls"):
        raise NotSpeculableError(
            f"{function.__qualname__} is a method without its object. Leave the class as it is, and declare "
            f"the method of an object: speculable(object.{function.__name__})."
        )


def speculable_tool(tool: object) -> SpeculableTool | None:
    """Return the :class:`SpeculableTool` of a tool, or None if it was not declared speculable."""
    found = getattr(tool, MARK, None)
    return found if isinstance(found, SpeculableTool) else None


# The core knows no framework: an adapter registers how its framework's tools are wrapped. agentrt's own
# adapters are imported with the first tool of their framework, so that the import order does not matter.
_ADAPTERS = {"langchain_core": "agentrt.adapters.langchain", "agents": "agentrt.adapters.openai_agents"}
_ADAPTERS_WITH_CONTEXTS = {"pydantic_ai": "agentrt.adapters.pydantic_ai"}
_WRAPPERS: dict[type, Callable[[Any, SpeculableOptions], Any]] = {}


def register_tool_type(kind: type, wrap: Callable[[Any, SpeculableOptions], Any]) -> None:
    """Make :func:`speculable` accept tools of type ``kind``, and functions whose first parameter is one.

    ``wrap`` returns the speculable tool.

    Raises:
        ConfigurationError: ``kind`` is no class, or ``wrap`` cannot be called.
    """
    check_setting("kind", kind, type, "a class of the framework")
    check_setting("wrap", wrap, object if callable(wrap) else (), "a function of a tool and its options")
    _WRAPPERS[kind] = wrap


def _wrapper_of(kind: type, adapters: Mapping[str, str]) -> Callable[[Any, SpeculableOptions], Any] | None:
    for base in kind.__mro__:
        for framework, module in adapters.items():
            if base.__module__.partition(".")[0] == framework:
                importlib.import_module(module)
        if base in _WRAPPERS:
            return _WRAPPERS[base]
    return None


def _first_parameter_type(function: Callable[..., Any]) -> type:
    """Return the class that annotates the first parameter; ``object`` if there is none."""
    first = next(iter(inspect.signature(function).parameters), None)
    try:
        hint = typing.get_type_hints(function).get(first) if first is not None else None
    except NameError:  # reported where the function's arguments are described
        return object
    kind = typing.get_origin(hint) or hint
    return kind if isinstance(kind, type) else object


def _from_function(function: Callable[..., Any], options: SpeculableOptions) -> SpeculableTool:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise NotSpeculableError(
            f"{function.__name__} is a generator function, which does nothing when it is called. "
            "Return the whole result, for example a list."
        )
    is_async = inspect.iscoroutinefunction(function)
    return SpeculableTool(
        function.__name__,
        bind=_binder(function),
        call=None if is_async else function,
        acall=function if is_async else None,
        options=options,
    )


def _binder(function: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Invocation]:
    """Return a function that validates arguments by the annotations and fills in the defaults."""
    name = function.__name__
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise NotSpeculableError(
            f"{name} has an annotation that cannot be resolved ({error}). Import what it names."
        ) from error
    adapters: dict[str, TypeAdapter[Any]] = {}
    defaults: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise NotSpeculableError(
                f"{name} takes {parameter}, which a model cannot fill in by name. Use named parameters."
            )
        adapters[parameter.name] = TypeAdapter(hints.get(parameter.name, Any))
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default

    def bind(arguments: Mapping[str, Any]) -> Invocation:
        unknown = arguments.keys() - adapters.keys()
        missing = adapters.keys() - arguments.keys() - defaults.keys()
        if unknown or missing:
            raise InvalidRequestError(
                "arguments",
                f"{name} takes {sorted(adapters)}; unknown {sorted(unknown)}, missing {sorted(missing)}.",
            )
        validated = {key: adapters[key].validate_python(value) for key, value in arguments.items()}
        return Invocation(kwargs={**defaults, **validated})

    return bind


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
