"""`speculate`: a chat model that runs predicted tool calls while it generates."""

from __future__ import annotations

import functools
import types
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableBinding
from pydantic import PrivateAttr

from agentrt.concurrency.hosts import Host, running_loop, worker_loop
from agentrt.concurrency.streams import produced_in_thread
from agentrt.config import SpeculationConfig
from agentrt.drafts import Speculator
from agentrt.errors import ConfigurationError
from agentrt.reports.events import SpeculationObserver
from agentrt.reports.report import SpeculationReport
from agentrt.toolcache import offering_results
from agentrt.turns.shared import SharedState

from .answers import StreamedAnswer
from .tool_cache import AnswerTurns
from .turns import Begun, BoundTools, Door, Predictor, Setup, begin_turn, inside_turn_of

if TYPE_CHECKING:
    from ..openai.tool_cache import ToolCacheEndpoint

Model = TypeVar("Model", bound=BaseChatModel)


def speculate(
    model: Model,
    predictors: Predictor | Sequence[Predictor],
    *,
    samples: int = 1,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
    tool_cache: bool = False,
) -> Model:
    """Return a copy of ``model`` that speculates on the calls of ``@speculable`` tools.

    The copy is an instance of ``type(model)`` and takes its place anywhere: in ``create_agent``, in a
    graph with a ``ToolNode``, sync, async or streamed. Nothing but timing changes (SpecTools, Algorithm 2):
    while the model generates, the predictors guess its next call and the guessed tools run; when the
    model makes that very call, the tool hands out the result it already has or is about to have.

    ``predictors`` are speculators, chat models used as drafts, or several of them; each is asked for
    ``samples`` guesses (λ). :func:`report_of` tells what it was worth.

    With ``tool_cache``, a ``ChatOpenAI`` submits results of early runs to an endpoint that names
    ``cache-tool-output`` among a model's capabilities, as ``agentrt serve`` does (SpecTools, Algorithm 4): in
    an answer streamed by chat completions (``ChatOpenAI(streaming=True)`` streams all) it answers the call
    itself and goes on. As with ``ChatAgentRT(tool_cache=True)``, such calls pass through no node, interrupt
    or middleware: they are ``server_tool_call`` and ``server_tool_result`` blocks of the message. A streamed
    call comes whole, when its turn ends. With any other endpoint it is Algorithm 2, without a word.

    Raises:
        ConfigurationError: ``model`` has its tools bound already, there is no predictor, or ``tool_cache`` is
            asked of a model that is no ``ChatOpenAI``.
    """
    if isinstance(model, RunnableBinding):
        raise ConfigurationError(
            "speculate() needs the chat model itself. Call it first and bind_tools() on what it returns."
        )
    given = (predictors,) if isinstance(predictors, (Speculator, BaseChatModel)) else tuple(predictors)
    if not given or samples < 1:
        raise ConfigurationError("speculate() needs at least one predictor and one sample.")
    endpoint = _endpoint_of(model) if tool_cache else None
    setup = Setup(given, SharedState.create(samples, config, observers), endpoint)
    copy = model.model_copy()
    kind = _speculating_class(_plain_class(type(model)), submits=tool_cache)
    object.__setattr__(copy, "__class__", kind)
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


def _plain_class(kind: type[BaseChatModel]) -> type[BaseChatModel]:
    plain: type[BaseChatModel] = kind.__dict__.get("_agentrt_base", kind)
    return plain


def _endpoint_of(model: BaseChatModel) -> ToolCacheEndpoint:
    endpoint = None
    with suppress(ModuleNotFoundError):  # without its package no model is a ChatOpenAI
        from .openai import endpoint_of

        endpoint = endpoint_of(model)
    if endpoint is None:
        raise ConfigurationError(
            f"speculate(tool_cache=True) is for ChatOpenAI, not {type(model).__name__}. Leave it out; for "
            "ChatAgentRT, set its own tool_cache."
        )
    return endpoint


@functools.cache
def _speculating_class(base: type[BaseChatModel], *, submits: bool) -> type[BaseChatModel]:
    """Return a subclass of ``base`` that speculates; traces and serialisers see the name of ``base``.

    ``submits`` is for a ``ChatOpenAI`` whose endpoint may have a tool cache.
    """

    @functools.wraps(base.bind_tools)
    def bind_tools(self: Any, tools: Sequence[Any], **kwargs: Any) -> Any:
        bound = self.model_copy()
        bound._agentrt_tools = BoundTools(tools)
        return base.bind_tools(bound, tools, **kwargs)

    def host_of(method: str) -> Host:
        return running_loop if method.startswith("_a") else worker_loop

    def turns_of(
        self: Any, method: str, begun: Begun, messages: Sequence[BaseMessage], options: Mapping[str, Any]
    ) -> AnswerTurns:
        def begin_next(history: Sequence[BaseMessage]) -> Begun | None:
            return begin_turn(self, history, options, host_of(method))

        about = (begun, begin_next, messages, self._agentrt_tools.submittable)
        endpoint = self._agentrt_setup.tool_cache
        if endpoint is None:
            return AnswerTurns(*about)
        from .openai import CompletionTurns

        client = self.root_async_client if method.startswith("_a") else self.root_client
        return CompletionTurns(endpoint, client, *about)

    async def whole(
        self: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any]
    ) -> AsyncGenerator[ChatResult, None]:
        if self.rate_limiter is not None and not await self.rate_limiter.aacquire(blocking=False):
            return
        with inside_turn_of(self._agentrt_setup):
            result = await base._agenerate(self, list(messages), **options)
        yield result

    async def streamed(
        self: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any]
    ) -> AsyncGenerator[ChatGenerationChunk, None]:
        if self.rate_limiter is not None and not await self.rate_limiter.aacquire(blocking=False):
            return
        async with aclosing(inside(self, base._astream(self, list(messages), **options))) as chunks:
            async for chunk in chunks:
                yield chunk

    def whole_blocking(
        self: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any]
    ) -> Generator[ChatResult, None, None]:
        if self.rate_limiter is not None and not self.rate_limiter.acquire(blocking=False):
            return
        with inside_turn_of(self._agentrt_setup):
            yield base._generate(self, list(messages), **options)

    def streamed_blocking(
        self: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any]
    ) -> Generator[ChatGenerationChunk, None, None]:
        if self.rate_limiter is not None and not self.rate_limiter.acquire(blocking=False):
            return
        chunks: Any = base._stream(self, list(messages), **options)
        with inside_turn_of(self._agentrt_setup), closing(chunks):
            yield from chunks

    def in_thread(door: Callable[..., Generator[Any, None, None]]) -> Door:
        def ask(
            self: Any, messages: Sequence[BaseMessage], options: Mapping[str, Any]
        ) -> AsyncGenerator[Any, None]:
            made = functools.partial(door, self, messages, options)
            return produced_in_thread(made, name=f"agentrt ahead {base.__name__}")

        return ask

    # How the model is asked ahead of its turn by each of its methods.
    doors: dict[str, Door] = {
        "_generate": in_thread(whole_blocking),
        "_agenerate": whole,
        "_stream": in_thread(streamed_blocking),
        "_astream": streamed,
    }

    def begin(self: Any, method: str, messages: list[BaseMessage], args: Any, kwargs: Any) -> Begun | None:
        door = None if args else functools.partial(doors[method], self)
        return begin_turn(self, messages, kwargs, host_of(method), method, door)

    async def inside(
        self: Any, chunks: Any, turns: AnswerTurns | None = None
    ) -> AsyncGenerator[ChatGenerationChunk, None]:
        async with aclosing(chunks):
            while True:
                with inside_turn_of(self._agentrt_setup), offering_results(turns):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk

    # LangChain reads the signatures of what follows, which wraps() keeps.
    @functools.wraps(base._generate)
    def _generate(self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        begun = begin(self, "_generate", messages, args, kwargs)
        if begun is None:
            return base._generate(self, messages, *args, **kwargs)
        with turns_of(self, "_generate", begun, messages, kwargs) as turns:
            results = list(begun.answered_ahead_blocking())
            if not results:
                with inside_turn_of(self._agentrt_setup), offering_results(turns):
                    results = [base._generate(self, messages, *args, **kwargs)]
            turns.bind(results[0].generations[0].message)
        return results[0]

    @functools.wraps(base._agenerate)
    async def _agenerate(self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        begun = begin(self, "_agenerate", messages, args, kwargs)
        if begun is None:
            return await base._agenerate(self, messages, *args, **kwargs)
        with turns_of(self, "_agenerate", begun, messages, kwargs) as turns:
            results = [result async for result in begun.answered_ahead()]
            if not results:
                with inside_turn_of(self._agentrt_setup), offering_results(turns):
                    results = [await base._agenerate(self, messages, *args, **kwargs)]
            turns.bind(results[0].generations[0].message)
        return results[0]

    @functools.wraps(base._stream)
    def _stream(
        self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        begun = begin(self, "_stream", messages, args, kwargs)
        if begun is None:
            yield from base._stream(self, messages, *args, **kwargs)
            return
        with turns_of(self, "_stream", begun, messages, kwargs) as turns:
            answer = StreamedAnswer(turns)
            answered = False
            with closing(begun.answered_ahead_blocking()) as pieces:
                for chunk in pieces:
                    answered = True
                    answer.add(chunk)
                    yield chunk
            if not answered:
                chunks: Any = base._stream(self, messages, *args, **kwargs)
                with closing(chunks):
                    while True:
                        with inside_turn_of(self._agentrt_setup), offering_results(turns):
                            chunk = next(chunks, None)
                        if chunk is None:
                            break
                        answer.add(chunk)
                        yield chunk
            turns.bind(answer.message())

    @functools.wraps(base._astream)
    async def _astream(
        self: Any, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        begun = begin(self, "_astream", messages, args, kwargs)
        if begun is None:
            async for chunk in base._astream(self, messages, *args, **kwargs):
                yield chunk
            return
        with turns_of(self, "_astream", begun, messages, kwargs) as turns:
            answer = StreamedAnswer(turns)
            answered = False
            async with aclosing(begun.answered_ahead()) as pieces:
                async for chunk in pieces:
                    answered = True
                    answer.add(chunk)
                    yield chunk
            if not answered:
                chunks = inside(self, base._astream(self, messages, *args, **kwargs), turns)
                async with aclosing(chunks):
                    async for chunk in chunks:
                        answer.add(chunk)
                        yield chunk
            turns.bind(answer.message())

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __module__=base.__module__,
            __qualname__=base.__qualname__,
            __doc__=base.__doc__,
            __annotations__={
                "_agentrt_base": ClassVar[type[BaseChatModel]],
                "_agentrt_setup": Setup | None,
                "_agentrt_tools": BoundTools | None,
            },
            _agentrt_base=base,
            _agentrt_setup=PrivateAttr(default=None),
            _agentrt_tools=PrivateAttr(default=None),
            bind_tools=bind_tools,
            _generate=_generate,
            _agenerate=_agenerate,
        )
        if submits:
            from .openai import completion_methods

            namespace.update(completion_methods(base))
        # LangChain takes an overridden _stream as the sign that a model can stream.
        if base._stream is not BaseChatModel._stream:
            namespace["_stream"] = _stream
        if base._stream is not BaseChatModel._stream or base._astream is not BaseChatModel._astream:
            namespace["_astream"] = _astream

    return types.new_class(base.__name__, (base,), {}, fill)
