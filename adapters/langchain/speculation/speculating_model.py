"""The methods that turn a LangChain chat model into a speculating one, and its streams beside a turn."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, nullcontext
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.runnables import RunnableConfig
from pydantic import PrivateAttr

from agentrt.adapting import Turn, reserve_turn
from agentrt.calls import CallArgumentsDelta, CallStarted, TextDelta
from agentrt.errors import ConfigurationError

from ...transparent_subclass import transparent_subclass
from ..runs import in_run_of_request, names_unseen_run, request_with
from .bound_tools import BoundTools
from .chat_model_request import ModelMethod
from .model_state import ModelState, agenerate_within, generate_within, is_inside_turn_of
from .turns import TurnSequence, TurnStarter

# At run time the user's model is the base class: a mixin with BaseChatModel's own fields would reset those
# that the model's class has changed.
if TYPE_CHECKING:
    _Base = BaseChatModel
else:
    _Base = object


class SpeculatingChatModel(_Base):
    """Mixin of every speculating chat model; ``super()`` is the user's model.

    Each method starts a turn beside the model's own method, takes the answer of an equal request that was
    sent ahead if there is one, and binds the turn to the tool calls of the answer.
    """

    if TYPE_CHECKING:
        _agentrt_state: ModelState | None
        _agentrt_tools: BoundTools | None

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Bind tools to a copy of the model, which speculates on those that are speculable."""
        getattr(self, "_serialized", None)  # LangChain keeps it for traces; each copy would make it anew
        bound = self.model_copy()
        if bound._agentrt_state is not None:
            bound._agentrt_tools = bound._agentrt_state.tools.bound(tools, kwargs.get("tool_choice"))
        return super(SpeculatingChatModel, bound).bind_tools(tools, **kwargs)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Answer as the model does; a run that only ``config`` names is that of the request."""
        with request_with(config) if names_unseen_run(config) else nullcontext():
            return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """:meth:`invoke` in async code."""
        with request_with(config) if names_unseen_run(config) else nullcontext():
            return await super().ainvoke(input, config, **kwargs)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """:meth:`invoke`, streamed."""
        chunks = super().stream(input, config, **kwargs)
        if names_unseen_run(config):
            return generate_within(functools.partial(request_with, config), chunks)
        return chunks

    def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """:meth:`stream` in async code."""
        chunks = super().astream(input, config, **kwargs)
        if names_unseen_run(config):
            return agenerate_within(functools.partial(request_with, config), chunks)
        return chunks

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise :class:`ConfigurationError`: predictors, report and speculations belong to this process."""
        raise ConfigurationError(
            f"a speculating {type(self).__name__} cannot be pickled. Pickle the plain model, and pass it to "
            "speculate() where it is loaded."
        )

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turns = self._agentrt_start(ModelMethod.GENERATE, messages, args, kwargs)
        if turns is None:
            return super()._generate(messages, *args, **kwargs)  # type: ignore[safe-super]
        with turns:
            results: list[ChatResult] = list(turns.current.lookahead_answer_blocking())
            if not results:
                with turns.generating():
                    results = [super()._generate(messages, *args, **kwargs)]  # type: ignore[safe-super]
            turns.bind(results[0].generations[0].message)
        return results[0]

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turns = self._agentrt_start(ModelMethod.AGENERATE, messages, args, kwargs)
        if turns is None:
            return await super()._agenerate(messages, *args, **kwargs)
        with turns:
            results: list[ChatResult] = [result async for result in turns.current.lookahead_answer()]
            if not results:
                with turns.generating():
                    results = [await super()._agenerate(messages, *args, **kwargs)]
            turns.bind(results[0].generations[0].message)
        return results[0]

    async def agenerate(self, *args: Any, **kwargs: Any) -> LLMResult:
        """Generate answers, each in a task of its own: their contexts are not that of the caller."""
        tools = self._agentrt_tools
        if tools is not None and tools.speculable:
            reserve_turn()
        return await super().agenerate(*args, **kwargs)

    def _agentrt_start(
        self, method: ModelMethod, messages: Sequence[BaseMessage], args: Any, options: Mapping[str, Any]
    ) -> TurnSequence | None:
        """Start a turn beside a request by ``method``; None if there is nothing to speculate on.

        A request with positional ``args`` besides its messages has no requests sent ahead after it.
        """
        state, tools = self._agentrt_state, self._agentrt_tools
        if state is None or tools is None or not tools.speculable or is_inside_turn_of(state):
            return None
        offered = tools.offered(options)
        if offered is not None and offered.isdisjoint(tools.speculable):
            return None
        starter = TurnStarter(state, tools, method, offered)
        send = getattr(super(), method.value)
        ahead = None if args else functools.partial(starter.model_request, self, send, messages, options)
        with in_run_of_request():
            return self._agentrt_turns(starter.start(messages, ahead), starter, messages)

    def _agentrt_turns(
        self, first: Turn, starter: TurnStarter, messages: Sequence[BaseMessage]
    ) -> TurnSequence:
        """Return the turns of the answer that begins with the turn ``first``."""
        return TurnSequence(first, starter, messages)


class ChunkObserver:
    """Shows a turn each chunk of an answer, and collects the tool calls; text is not kept."""

    def __init__(self, turns: TurnSequence) -> None:
        """``turns`` are those of the answer."""
        self.seen_any = False
        self._turns = turns
        self._chunks: list[AIMessageChunk] = []
        self._positions: dict[int | None, int] = {}
        self._calls = 0

    def add(self, chunk: ChatGenerationChunk) -> None:
        """Take the next chunk."""
        self.seen_any = True
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            return
        if message.text:
            self._turns.current.observe(TextDelta(message.text))
        if message.tool_call_chunks:
            self._chunks.append(AIMessageChunk(content="", tool_call_chunks=message.tool_call_chunks))
            for piece in message.tool_call_chunks:
                self._observe(piece)

    def _observe(self, piece: ToolCallChunk) -> None:
        # Providers number content blocks in ways of their own; parser events count the calls from 0.
        position = self._positions.get(piece["index"])
        if position is None or (piece["index"] is None and piece["name"]):
            if not piece["name"]:
                return  # the rest of a call whose beginning had no name
            position = self._positions[piece["index"]] = self._calls
            self._calls += 1
            self._turns.current.observe(CallStarted(position, piece["name"]))
        if piece["args"]:
            self._turns.current.observe(CallArgumentsDelta(position, piece["args"]))

    def message(self) -> AIMessageChunk:
        """Return a message with the tool calls of all chunks so far."""
        return add_ai_message_chunks(AIMessageChunk(content=""), *self._chunks)


class SpeculatingStream(SpeculatingChatModel):
    """Mixin of a speculating model that streams in sync code."""

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        turns = self._agentrt_start(ModelMethod.STREAM, messages, args, kwargs)
        if turns is None:
            yield from super()._stream(messages, *args, **kwargs)
            return
        with turns:  # discards its speculations if the stream is closed
            observer = ChunkObserver(turns)
            with closing(turns.current.lookahead_answer_blocking()) as chunks:
                for chunk in chunks:
                    observer.add(chunk)
                    yield chunk
            if not observer.seen_any:
                sent = super()._stream(messages, *args, **kwargs)
                with closing(generate_within(turns.generating, sent)) as chunks:
                    for chunk in chunks:
                        observer.add(chunk)
                        yield chunk
            turns.bind(observer.message())


class SpeculatingAsyncStream(SpeculatingChatModel):
    """Mixin of a speculating model that streams in async code."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        turns = self._agentrt_start(ModelMethod.ASTREAM, messages, args, kwargs)
        if turns is None:
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
            return
        with turns:
            observer = ChunkObserver(turns)
            async with aclosing(turns.current.lookahead_answer()) as chunks:
                async for chunk in chunks:
                    observer.add(chunk)
                    yield chunk
            if not observer.seen_any:
                sent = super()._astream(messages, *args, **kwargs)
                async with aclosing(agenerate_within(turns.generating, sent)) as chunks:
                    async for chunk in chunks:
                        observer.add(chunk)
                        yield chunk
            turns.bind(observer.message())


@functools.cache
def speculating_class(base: type[BaseChatModel], *mixins: type) -> type[BaseChatModel]:
    """Return a subclass of ``base`` that speculates; ``mixins`` override those of this module."""
    chosen = [*mixins]
    # LangChain takes a class that overrides _stream or _astream for one that can stream.
    streams = base._stream is not BaseChatModel._stream
    if streams:
        chosen.append(SpeculatingStream)
    if streams or base._astream is not BaseChatModel._astream:
        chosen.append(SpeculatingAsyncStream)
    return transparent_subclass(
        base,
        *chosen,
        SpeculatingChatModel,
        _agentrt_state=PrivateAttr(default=None),
        _agentrt_tools=PrivateAttr(default=None),
    )
