"""LocalRuntime: the door to the runtime. Everything else in this package is behind it."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from agentrt.calls import ToolCallFormat
from agentrt.errors import InvalidRequestError, PromptTooLongError
from agentrt.priority import Priority, current_priority

from .config import RuntimeConfig
from .context import BlockPool, KVArena
from .engine import Completion, Engine, EngineStatistics, Job, OnText
from .forward import ForwardPass
from .generation import Finished, Generation, GenerationBuilder, GenerationEvent
from .mailbox import Mailbox
from .model import (
    CallConstraint,
    CallGrammar,
    Tokenizer,
    compile_paged_model,
    detect_call_format,
    open_model_directory,
)
from .requests import check_messages, check_tools
from .sampling import SamplingParams
from .scheduler import Scheduler
from .text import AnswerText

Message = Mapping[str, Any]
"""One chat message in OpenAI's shape."""


class GenerationOptions(TypedDict, total=False):
    """What a request may ask for beside its messages. See :class:`SamplingParams` for the numbers."""

    tools: Sequence[Mapping[str, Any]] | None
    """Function definitions in OpenAI's shape. Only with them is the answer searched for calls."""
    priority: Priority | None
    """None takes the one in force, :func:`agentrt.current_priority`."""
    max_tokens: int | None
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    seed: int | None
    ignore_eos: bool
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    logit_bias: Mapping[int, float] | None


@dataclass(frozen=True, slots=True)
class RuntimeStatistics:
    """A snapshot of a runtime."""

    model_id: str
    engine: EngineStatistics
    arena_bytes: int
    block_tokens: int
    blocks: int
    free_blocks: int


@dataclass(frozen=True, slots=True)
class _Request:
    """A checked request: nothing about it can fail any more for a reason the caller could mend."""

    prompt: list[int]
    params: SamplingParams
    priority: Priority
    call_format: ToolCallFormat | None
    constraint: CallConstraint | None
    arrived: float


class LocalRuntime:
    """One model, loaded and running. Thread-safe; requests from any threads and loops share its batch.

    Use :meth:`open`, and the instance as a context manager::

        with LocalRuntime.open("nano") as runtime:
            generation = runtime.generate([{"role": "user", "content": "Hello!"}])

    Every way to generate takes the same ``messages`` and :class:`GenerationOptions`, and raises

    - :class:`InvalidRequestError`: a field is wrong; it is named;
    - :class:`PromptTooLongError`: the prompt does not fit the context or the arena;
    - :class:`RuntimeClosedError`, :class:`EngineFailedError`: the engine no longer runs.
    """

    def __init__(self, model: str | os.PathLike[str], config: RuntimeConfig) -> None:
        """Load ``model``; :meth:`open` is the usual way in and says what may go wrong."""
        directory = open_model_directory(model)
        paged = compile_paged_model(directory, "CPU", config.device_properties())
        self._tokenizer = Tokenizer(directory, paged.vocabulary_size)
        arena = KVArena(paged, config.memory_bytes)
        self._pool = BlockPool(arena.blocks)
        self._arena = arena
        self.config = config
        self.model_id = directory.model_id
        self.context_length = directory.context_length
        """Tokens of prompt and answer together that the model was made for."""
        self.call_format = detect_call_format(self._tokenizer.chat_template, directory.model_id)
        """How the model writes tool calls; None if its template has no place for tools."""
        self._call_grammar = (
            CallGrammar.of(self.call_format, self._tokenizer.token_bytes, min(self._tokenizer.end_token_ids))
            if config.constrain_tool_calls
            else None
        )
        self._vocabulary_size = paged.vocabulary_size
        scheduler = Scheduler(
            self._pool,
            block_tokens=arena.block_tokens,
            max_batch_size=config.max_batch_size,
            prefill_chunk_tokens=config.prefill_chunk_tokens,
        )
        self._engine = Engine(ForwardPass(paged, arena), scheduler, paged.vocabulary_size)
        # Closes when nobody holds the runtime any more, and at the latest before the interpreter goes away
        # under the engine thread.
        self._finalizer = weakref.finalize(self, self._engine.close)

    @classmethod
    def open(cls, model: str | os.PathLike[str], config: RuntimeConfig | None = None) -> Self:
        """Load ``"nano"``, ``"nano-draft"`` or an OpenVINO model directory, ready for requests.

        Raises:
            ModelNotFoundError, ModelFormatError: there is no such model, or it is incomplete or damaged.
            ConfigurationError: the configuration cannot work with this model on this machine.
        """
        return cls(model, config or RuntimeConfig())

    def close(self) -> None:
        """Stop. Requests that have not ended raise :class:`RuntimeClosedError`. May be called again."""
        self._finalizer()

    def __enter__(self) -> Self:
        """Return the runtime itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def statistics(self) -> RuntimeStatistics:
        """Count requests, tokens and blocks. Cheap; callable from any thread."""
        return RuntimeStatistics(
            model_id=self.model_id,
            engine=self._engine.statistics(),
            arena_bytes=self._arena.memory_bytes,
            block_tokens=self._arena.block_tokens,
            blocks=self._pool.total,
            free_blocks=self._pool.free,
        )

    def generate(self, messages: Sequence[Message], **options: Unpack[GenerationOptions]) -> Generation:
        """Generate one answer and block until it is there."""
        request = self._prepare(messages, **options)
        job = self._submit(request)
        try:
            return _assemble(request, job.completion.result())
        finally:
            self._engine.cancel(job)  # does something only if the wait was interrupted

    async def agenerate(
        self, messages: Sequence[Message], **options: Unpack[GenerationOptions]
    ) -> Generation:
        """Generate one answer without blocking the event loop. Cancelling the task frees everything."""
        request = await self._aprepare(messages, options)
        job = self._submit(request)
        try:
            return _assemble(request, await asyncio.wrap_future(job.completion))
        finally:
            self._engine.cancel(job)

    def iter_stream(
        self, messages: Sequence[Message], **options: Unpack[GenerationOptions]
    ) -> Iterator[GenerationEvent]:
        """Generate one answer piece by piece; the last event is :class:`Finished`.

        The request is checked at once and starts with the first ``next``. Closing the iterator cancels it.
        """
        return self._iterate(self._prepare(messages, **options))

    def _iterate(self, request: _Request) -> Iterator[GenerationEvent]:
        pieces: SimpleQueue[str | None] = SimpleQueue()
        job = self._submit(request, pieces.put)
        job.completion.add_done_callback(lambda _: pieces.put(None))
        builder = GenerationBuilder(request.call_format)
        try:
            while (text := pieces.get()) is not None:
                yield from builder.feed(text)
            yield from builder.finish(job.completion.result())
        finally:
            self._engine.cancel(job)

    async def stream(
        self, messages: Sequence[Message], **options: Unpack[GenerationOptions]
    ) -> AsyncIterator[GenerationEvent]:
        """Generate one answer piece by piece; the last event is :class:`Finished`.

        Closing the iterator, or cancelling the task that waits on it, cancels the request.
        """
        request = await self._aprepare(messages, options)
        mailbox = Mailbox(asyncio.get_running_loop())
        job = self._submit(request, mailbox.put)
        job.completion.add_done_callback(lambda _: mailbox.close())
        builder = GenerationBuilder(request.call_format)
        try:
            while (text := await mailbox.get()) is not None:
                for event in builder.feed(text):
                    yield event
            for last in builder.finish(job.completion.result()):
                yield last
        finally:
            self._engine.cancel(job)

    async def _aprepare(self, messages: Sequence[Message], options: GenerationOptions) -> _Request:
        # Rendering and tokenizing a long prompt takes milliseconds. The thread inherits the priority.
        return await asyncio.to_thread(self._prepare, messages, **options)

    def _submit(self, request: _Request, on_text: OnText | None = None) -> Job:
        prompt_tokens = len(request.prompt)
        most = min(self.context_length, self._arena.capacity_tokens)
        if request.params.max_tokens is not None:
            most = min(most, prompt_tokens + request.params.max_tokens)
        end_tokens = frozenset(request.params.stop_token_ids)
        if not request.params.ignore_eos:
            end_tokens |= self._tokenizer.end_token_ids
        return self._engine.submit(
            request.prompt,
            request.params,
            request.priority,
            AnswerText(self._tokenizer.detokenizer(), request.params.stop),
            end_tokens=end_tokens,
            max_total_tokens=most,
            constraint=request.constraint,
            on_text=on_text,
            arrived=request.arrived,
        )

    def _prepare(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        priority: Priority | None = None,
        stop: str | Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        logit_bias: Mapping[int, float] | None = None,
        **numbers: Any,
    ) -> _Request:
        arrived = time.perf_counter()
        checked_messages = check_messages(messages)
        checked_tools = check_tools(tools)
        if checked_tools and self.call_format is None:
            raise InvalidRequestError(
                "tools", f"the chat template of {self.model_id} has no place for tools. Use another model."
            )
        params = SamplingParams(
            stop=(stop,) if isinstance(stop, str) else _as_tuple("stop", stop),
            stop_token_ids=_as_tuple("stop_token_ids", stop_token_ids),
            logit_bias={} if logit_bias is None else logit_bias,
            **numbers,
        )
        params.check_vocabulary(self._vocabulary_size)
        prompt = self._tokenizer.encode(self._tokenizer.render(checked_messages, checked_tools))
        self._check_length(len(prompt))
        return _Request(
            prompt,
            params,
            current_priority() if priority is None else _as_priority(priority),
            self.call_format if checked_tools else None,
            self._call_grammar.constraint(checked_tools) if checked_tools and self._call_grammar else None,
            arrived,
        )

    def _check_length(self, prompt_tokens: int) -> None:
        """Refuse a prompt that leaves no place for a single token of answer."""
        capacity = self._arena.capacity_tokens
        if prompt_tokens >= self.context_length:
            raise PromptTooLongError(
                prompt_tokens,
                self.context_length,
                f"the context of {self.model_id}",
                "Shorten the messages or drop old ones, or use a model with a longer context.",
            )
        if prompt_tokens >= capacity:
            raise PromptTooLongError(
                prompt_tokens,
                capacity,
                "the KV arena",
                f"Open the runtime with a larger memory_bytes; it is {self.config.memory_bytes} now.",
            )


def _assemble(request: _Request, completion: Completion) -> Generation:
    builder = GenerationBuilder(request.call_format)
    builder.feed(completion.text)
    finished = builder.finish(completion)[-1]
    assert isinstance(finished, Finished)
    return finished.generation


def _as_tuple(field: str, values: Sequence[Any]) -> tuple[Any, ...]:
    try:
        return tuple(values)
    except TypeError:
        raise InvalidRequestError(field, f"{values!r} is not a list. Give a list.") from None


def _as_priority(priority: object) -> Priority:
    try:
        return Priority(priority)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidRequestError(
            "priority", f"{priority!r} is unknown. Use Priority.REACTIVE or Priority.PROACTIVE."
        ) from None
