"""`speculate`: a chat model that runs predicted tool calls while it generates."""

from __future__ import annotations

import functools
import types
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableBinding
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from agentrt._hosts import Host, running_loop, worker_loop
from agentrt.config import SpeculationConfig
from agentrt.context import SpeculationContext
from agentrt.drafts import DraftRequest, Speculator
from agentrt.errors import ConfigurationError, NotSpeculableError
from agentrt.events import SpeculationObserver
from agentrt.report import SpeculationReport
from agentrt.speculable import SpeculableTool, speculable_tool
from agentrt.turn import Turn

from ._langchain_answers import StreamedAnswer
from ._langchain_drafts import ChatModelSpeculator, tool_calls
from ._langchain_messages import openai_messages
from ._langchain_scopes import scope_of_run

Model = TypeVar("Model", bound=BaseChatModel)
Predictor = Speculator | BaseChatModel


def speculate(
    model: Model,
    predictors: Predictor | Sequence[Predictor],
    *,
    samples: int = 1,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
) -> Model:
    """Return a copy of ``model`` that speculates on the calls of ``@speculable`` tools.

    The copy is an instance of ``type(model)`` and takes its place anywhere: in ``create_agent``, in a
    graph with a ``ToolNode``, sync, async or streamed. Nothing but timing changes (SpecTools, Algorithm 2):
    while the model generates, the predictors guess its next call and the guessed tools run; when the
    model makes that very call, the tool hands out the result it already has or is about to have.

    ``predictors`` are speculators, chat models used as drafts, or several of them; each is asked for
    ``samples`` guesses (λ). :func:`report_of` tells what it was worth.

    Raises:
        ConfigurationError: ``model`` has its tools bound already, or there is no predictor.
    """
    if isinstance(model, RunnableBinding):
        raise ConfigurationError(
            "speculate() needs the chat model itself. Call it first and bind_tools() on what it returns."
        )
    given = (predictors,) if isinstance(predictors, (Speculator, BaseChatModel)) else tuple(predictors)
    if not given or samples < 1:
        raise ConfigurationError("speculate() needs at least one predictor and one sample.")
    setup = _Setup(given, SpeculationContext.create(samples, config, observers))
    copy = model.model_copy()
    object.__setattr__(copy, "__class__", _speculating_class(_plain_class(type(model))))
    copy._agentrt_setup = setup  # type: ignore[attr-defined]
    copy._agentrt_tools = None  # type: ignore[attr-defined]
    return copy


def report_of(model: Any) -> SpeculationReport:
    """Return the report of a model that :func:`speculate` returned, with or without tools bound."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    setup = getattr(model, "_agentrt_setup", None)
    if setup is None:
        raise ConfigurationError(f"{type(model).__name__} does not speculate. Pass it to speculate() first.")
    report: SpeculationReport = setup.context.reporter.report()
    return report


@dataclass(frozen=True)
class _Setup:
    """What all copies of one speculating model share."""

    predictors: tuple[Predictor, ...]
    context: SpeculationContext

    def __deepcopy__(self, memo: object) -> _Setup:
        """A deep copy of a model has the same predictors, which may hold models of their own."""
        return self


class _Tools:
    """The tools bound to one copy of the model."""

    def __init__(self, tools: Sequence[Any]) -> None:
        self.given = tools
        self.speculable: dict[str, SpeculableTool] = {}
        for tool in tools:
            described = speculable_tool(tool)
            if isinstance(tool, BaseTool) and described is not None:
                self.speculable[described.name] = described
            elif any(map(speculable_tool, (tool, getattr(tool, "func", 0), getattr(tool, "coroutine", 0)))):
                raise NotSpeculableError(
                    f"{getattr(tool, 'name', tool)} is a speculable function in a tool that is not: only the "
                    "tool learns which call it answers. Put @speculable above @tool."
                )

    @functools.cached_property
    def schemas(self) -> list[Mapping[str, Any]]:
        """The function tools in OpenAI's shape; a provider's built-in tools cannot be guessed."""
        schemas = [convert_to_openai_tool(tool) for tool in self.given]
        return [schema for schema in schemas if schema.get("type") == "function"]


# Models implement one entry point by another (``_agenerate`` by ``_astream``, ``_astream`` by ``_stream``
# in a thread): the inner one must not speculate again. Set only while the model's own code runs.
_in_turn_of: ContextVar[_Setup | None] = ContextVar("agentrt_in_turn_of", default=None)


@contextmanager
def _inside(setup: _Setup) -> Iterator[None]:
    token = _in_turn_of.set(setup)
    try:
        yield
    finally:
        _in_turn_of.reset(token)


def _start_turn(
    model: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any], host: Host
) -> Turn | None:
    """Start to speculate, or return None where there is nothing to gain."""
    setup: _Setup | None = model._agentrt_setup
    tools: _Tools | None = model._agentrt_tools
    if setup is None or tools is None or not tools.speculable or _in_turn_of.get() is setup:
        return None
    if options.get("tool_choice") == "none":
        return None
    turn = Turn(
        setup.context,
        tools=tools.speculable,
        predictors=[
            predictor
            if isinstance(predictor, Speculator)
            else ChatModelSpeculator(predictor, messages, tools.given, use_async=host.runs_coroutine_tools)
            for predictor in setup.predictors
        ],
        request=lambda: DraftRequest(openai_messages(messages), tools.schemas, setup.context.samples),
        scope=scope_of_run(),
    )
    # What runs early must not report to the user's callbacks: it may never have happened.
    context = copy_context()
    context.run(var_child_runnable_config.set, None)
    context.run(turn.start, host)
    return turn


def _plain_class(kind: type[BaseChatModel]) -> type[BaseChatModel]:
    plain: type[BaseChatModel] = kind.__dict__.get("_agentrt_base", kind)
    return plain


@functools.cache
def _speculating_class(base: type[BaseChatModel]) -> type[BaseChatModel]:
    """Return a subclass of ``base`` that speculates; traces and serialisers see the name of ``base``."""

    @functools.wraps(base.bind_tools)
    def bind_tools(self: Any, tools: Sequence[Any], **kwargs: Any) -> Any:
        bound = self.model_copy()
        bound._agentrt_tools = _Tools(tools)
        return base.bind_tools(bound, tools, **kwargs)

    # LangChain reads the signatures of what follows, which wraps() keeps.
    @functools.wraps(base._generate)
    def _generate(self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        turn = _start_turn(self, messages, kwargs, worker_loop)
        if turn is None:
            return base._generate(self, messages, *args, **kwargs)
        with turn:
            with _inside(self._agentrt_setup):
                result = base._generate(self, messages, *args, **kwargs)
            turn.bind(tool_calls(result.generations[0].message))
        return result

    @functools.wraps(base._agenerate)
    async def _agenerate(self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        turn = _start_turn(self, messages, kwargs, running_loop)
        if turn is None:
            return await base._agenerate(self, messages, *args, **kwargs)
        with turn:
            with _inside(self._agentrt_setup):
                result = await base._agenerate(self, messages, *args, **kwargs)
            turn.bind(tool_calls(result.generations[0].message))
        return result

    @functools.wraps(base._stream)
    def _stream(
        self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        turn = _start_turn(self, messages, kwargs, worker_loop)
        if turn is None:
            yield from base._stream(self, messages, *args, **kwargs)
            return
        answer = StreamedAnswer(turn)
        chunks: Any = base._stream(self, messages, *args, **kwargs)
        with turn, closing(chunks):
            while True:
                with _inside(self._agentrt_setup):
                    chunk = next(chunks, None)
                if chunk is None:
                    break
                answer.add(chunk)
                yield chunk
            turn.bind(tool_calls(answer.message()))

    @functools.wraps(base._astream)
    async def _astream(
        self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn = _start_turn(self, messages, kwargs, running_loop)
        chunks: Any = base._astream(self, messages, *args, **kwargs)
        if turn is None:
            async for chunk in chunks:
                yield chunk
            return
        answer = StreamedAnswer(turn)
        with turn:
            async with aclosing(chunks):
                while True:
                    with _inside(self._agentrt_setup):
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        break
                    answer.add(chunk)
                    yield chunk
            turn.bind(tool_calls(answer.message()))

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __module__=base.__module__,
            __qualname__=base.__qualname__,
            __doc__=base.__doc__,
            __annotations__={
                "_agentrt_base": ClassVar[type[BaseChatModel]],
                "_agentrt_setup": _Setup | None,
                "_agentrt_tools": _Tools | None,
            },
            _agentrt_base=base,
            _agentrt_setup=PrivateAttr(default=None),
            _agentrt_tools=PrivateAttr(default=None),
            bind_tools=bind_tools,
            _generate=_generate,
            _agenerate=_agenerate,
        )
        # LangChain takes an overridden _stream as the sign that a model can stream.
        if base._stream is not BaseChatModel._stream:
            namespace["_stream"] = _stream
        if base._stream is not BaseChatModel._stream or base._astream is not BaseChatModel._astream:
            namespace["_astream"] = _astream

    return types.new_class(base.__name__, (base,), {}, fill)
