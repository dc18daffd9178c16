"""LocalRuntime: opens a model and generates. The public entry point of the runtime."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from dataclasses import dataclass
from typing import Self, Unpack

from agentrt.concurrency.fair_threads import Cancellation
from agentrt.concurrency.handover import Handover
from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import RuntimeClosedError

from ..config import RuntimeConfig
from ..contexts.service import ContextService
from ..contexts.table import ContextTable
from ..drafting.drafter_selector import DrafterSelector
from ..engine.engine_group import EngineGroup
from ..engine.engine_request import OutputListener
from ..engine.engine_status import EngineStatistics, EngineStatus
from ..engine.output.generation import Generation, GenerationEvent
from ..engine.output.generation_span import GenerationSpan, generation_span
from ..engine.output.pending import PendingGeneration
from ..engine.output.stream import GenerationStream
from ..engine.trace import Trace
from ..kv.saved_contexts import SavedContexts
from ..kv.store.store import ContextStore, StoreStatistics
from ..kv.swap.swapper import SwapStatistics
from ..model.opening import OnOpeningStep, OpeningStep, ignore_step
from ..request.options import GenerationOptions, Message, Prompt
from ..request.preparation import Preparation
from ..request.request import Request
from ..request.validation import check_text, check_tokens
from ..toolcache.drafter import ToolCacheDrafter
from ..toolcache.outputs import ToolOutputs
from ..toolcache.tool_turn import ToolTurn
from .assembly import RuntimeParts, assemble_runtime
from .preparer import RequestPreparer


@dataclass(frozen=True, slots=True)
class RuntimeStatistics:
    """A snapshot of a runtime."""

    model_id: str
    engine: EngineStatistics
    arena_bytes: int
    block_tokens: int
    blocks: int
    free_blocks: int
    """Blocks that no request holds."""
    cached_blocks: int
    """Free blocks that the prefix cache still holds."""
    state_rows: int
    """State rows of a hybrid model; 0 for others."""
    free_state_rows: int
    """State rows that no request holds."""
    contexts: SwapStatistics | None
    """What was stored of contexts and loaded again; None if they stay in the KV arena."""
    context_files: StoreStatistics | None
    """What is stored of contexts; None without a folder."""


class LocalRuntime(AbstractContextManager["LocalRuntime"]):
    """One model, loaded and running. Thread-safe: requests from any thread and event loop share its batches.

    Call :meth:`open`, and use the instance as a context manager::

        with LocalRuntime.open("nano") as runtime:
            generation = runtime.generate([{"role": "user", "content": "Hello!"}])

    Every way to generate takes the same ``messages``, or a :class:`RawPrompt` in their place, and
    :class:`GenerationOptions`, and raises

    - :class:`InvalidRequestError`: a field is wrong or there is no such option; ``field`` names it;
    - :class:`PromptTooLongError`: the prompt does not fit the context or the KV arena;
    - :class:`OverloadedError`: too many requests wait, and this one is the least urgent;
    - :class:`DeadlineExceededError`: the request's ``deadline_s`` has passed;
    - :class:`EngineError`: kernels of the request failed or hung repeatedly;
    - :class:`RuntimeClosedError`, :class:`EngineFailedError`: the engine no longer runs;
    - :class:`ForkedProcessError`: the runtime is that of the process from which this one was forked.

    Close it before the process ends, or let the end of the process close it. A process that ends while a
    thread opens a model waits for the step in progress.
    """

    def __init__(self, parts: RuntimeParts, config: RuntimeConfig) -> None:
        """See :meth:`open`."""
        # Closes when nothing refers to the runtime any more, and at the latest before the interpreter exits
        # under the engine thread.
        self._finalizer = weakref.finalize(self, parts.close)
        self.config = config
        self.memory_bytes = parts.footprint_bytes + parts.arena.memory_bytes + parts.kept.memory_bytes
        """Bytes of the weights, of the activations of the longest chunk, and of all keys and values."""
        self.model_id = parts.model_id
        self.context_length = parts.context_length
        """Maximum number of tokens of prompt and answer together."""
        self.context_table = parts.context_table
        """The contexts of all apps; :meth:`bind` gives an app its own."""
        self.max_context_tokens = min(self.context_length, config.max_context_tokens or self.context_length)
        """Maximum number of tokens of one context."""
        self.call_format = parts.call_format
        """Format in which the model is expected to write tool calls; None if it takes no tools."""
        self.drafter_selector: DrafterSelector = parts.drafter_selector
        """What selects the drafters of each request. Another one may take its place at any time."""
        self._token_texts = parts.drafter_selector.token_texts
        self.drafts = parts.drafter_selector.drafts
        """Whether answers are drafted that no request asks to draft; predicted calls are then taken."""
        self._vocabulary_size = parts.vocabulary_size
        self._tokenizer = parts.tokenizer
        self._renderer = parts.renderer
        self._input_processor = parts.input_processor
        self._preparer = RequestPreparer(parts.input_processor, parts.context_table, self.max_context_tokens)
        self._engine = parts.engine
        self._scheduler = parts.scheduler
        self._platform = parts.platform
        self._arena = parts.arena
        self._pool = parts.pool
        self._state_pool = parts.state_pool
        self._kept = parts.kept
        self._contexts_owner = parts.contexts_owner

    @classmethod
    def open(
        cls,
        model: str | os.PathLike[str],
        config: RuntimeConfig | None = None,
        *,
        on_step: OnOpeningStep = ignore_step,
        group: EngineGroup | None = None,
        contexts: SavedContexts | None = None,
        context_table: ContextTable | None = None,
        context_store: ContextStore | None = None,
    ) -> Self:
        """Load ``"nano"``, ``"nano-draft"``, an OpenVINO model directory or a GGUF file, ready for requests.

        ``on_step`` is called when a step of opening begins or gets on. A GGUF file is converted, and a model
        is measured, when it is first opened; both take seconds.

        Open all models of a process with one ``group``: proactive requests of each then pause for reactive
        requests of the others. ``contexts`` are those of an earlier runtime (:meth:`suspend`): prompts of its
        apps find their blocks again. They are not used if the model's files or ``config`` have changed since.
        ``context_table`` has the texts of the contexts, which outlive this runtime; None makes one.
        ``context_store`` keeps the contexts in place of a folder in :attr:`RuntimeConfig.context_folder`; it
        stays open when the runtime is closed.

        Raises:
            ModelNotFoundError, ModelFormatError: the model does not exist, or is incomplete or damaged.
            ForkedProcessError: this process was forked from one that had opened a model.
            ContextStoreError: the folder of contexts cannot be used, or another runtime uses it.
            ConfigurationError: ``config`` is not a :class:`RuntimeConfig`, or cannot work with this model on
                this machine.
        """
        settings = RuntimeConfig() if config is None else config

        def begin_step(step: OpeningStep) -> None:
            native_calls.check()
            on_step(step)

        with native_calls:
            parts = assemble_runtime(
                model, settings, begin_step, group, contexts, context_table, context_store
            )
            runtime = cls(parts, settings)
        native_calls.keep_in_forks(runtime)
        return runtime

    def close(self) -> None:
        """Stop. Requests that have not ended raise :class:`RuntimeClosedError`. May be called again.

        In a forked child it has no effect: the runtime is the parent's.
        """
        self._finalizer()

    def __repr__(self) -> str:
        """Return the name of the model, and whether the runtime is open."""
        return f"<{type(self).__name__} {self.model_id}, {'closed' if self.closed else 'open'}>"

    def check_open(self) -> None:
        """Return if the runtime was not closed.

        Raises:
            RuntimeClosedError: it was.
        """
        if not self._finalizer.alive:
            raise RuntimeClosedError

    @property
    def closed(self) -> bool:
        """Whether the runtime was closed or has failed, and so answers no more requests."""
        return self._engine.refuses_requests

    def suspend(self) -> SavedContexts:
        """Stop like :meth:`close`, and save the contexts of all apps for :meth:`open`.

        They are in a temporary file, at most as large as the KV arena; close them when they are not needed.
        Those of a hybrid model are not saved, and computed again. With a folder of contexts those of named
        apps are there, and nothing is in the temporary file.

        Raises:
            OSError: the file cannot be written; the runtime is closed all the same.
        """
        native_calls.check()
        caches = self._arena.rows(self._platform)
        self.close()
        self._scheduler.release_held_contexts()
        # Without their states the blocks of a hybrid model are of no use.
        saved = bool(caches) and self._state_pool is None and self._kept.store is None
        blocks = self._pool.cached_blocks() if saved else {}
        return SavedContexts.save(self._kept.salts, self._contexts_owner, blocks, caches)

    def __exit__(self, *error: object) -> None:
        """Close the runtime."""
        self.close()

    def statistics(self) -> RuntimeStatistics:
        """Return counts of requests, tokens and KV blocks. Cheap; callable from any thread."""
        native_calls.check()  # threads that a forked child does not have may hold the locks of the counts
        pool, states, kept = self._pool, self._state_pool, self._kept
        return RuntimeStatistics(
            model_id=self.model_id,
            engine=self._engine.statistics(),
            arena_bytes=self._arena.memory_bytes,
            block_tokens=self._arena.block_tokens,
            blocks=pool.total,
            free_blocks=pool.free,
            cached_blocks=pool.cached,
            state_rows=0 if states is None else states.total,
            free_state_rows=0 if states is None else states.free,
            contexts=None if kept.swapper is None else kept.swapper.statistics(),
            context_files=None if kept.store is None else kept.store.statistics(),
        )

    @contextmanager
    def record_trace(self, limit: int = 100_000) -> Iterator[Trace]:
        """Record every kernel that runs inside the ``with`` block: its XPU, its times, its requests.

        The trace may be read at any time, also after the block. Several may be recorded at once. ``limit``
        bounds the number of kernels; the oldest are dropped first.
        """
        trace = Trace(limit)
        self._engine.add_trace(trace)
        try:
            yield trace
        finally:
            self._engine.remove_trace(trace)

    def engine_status(self, most: int) -> Future[EngineStatus]:
        """Ask the engine for the state of at most ``most`` requests, in serving order, and of the KV blocks.

        It answers between two kernels, or never if it stops before.
        """
        native_calls.check()
        return self._engine.status(most)

    @property
    def constrains_calls(self) -> bool:
        """Whether a grammar makes every tool call valid, so that it may be shown before it is complete."""
        return self._input_processor.call_token is not None

    def token_text(self, token: int) -> bytes:
        """Return the text of one token as bytes, which may be part of a character."""
        if self._tokenizer.token_bytes is not None:
            return self._tokenizer.token_bytes[token]
        return self._tokenizer.decode([token]).encode("utf-8")

    def bind(self, app: str) -> ContextService:
        """Return the contexts of ``app``, which it can make, call and delete (LLMS, Table 1).

        Raises:
            InvalidRequestError: ``app`` is no string, or one that UTF-8 cannot encode.
        """
        return ContextService(self, self.context_table, check_text(app, "app"))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        return len(self._tokenizer.encode(text))

    async def acount_tokens(self, text: str, *, app: str = "") -> int:
        """Return the number of tokens of ``text`` without blocking the event loop.

        Apps take turns, as with requests. Cancelling the task ends the work.
        """

        def count(cancellation: Cancellation) -> int:
            return len(self._tokenizer.encode(text, lambda _: cancellation.check()))

        return await self._preparer.run(count, app)

    async def atokenize(
        self, messages: Prompt, *, tools: Sequence[Message] | None = None, app: str = ""
    ) -> list[int]:
        """Return the tokens of a prompt as a generation would have it, without blocking the event loop.

        Raises:
            InvalidRequestError, PromptTooLongError: as for a generation.
        """

        def tokenize(cancellation: Cancellation) -> list[int]:
            return self._input_processor.tokenize(messages, tools, Preparation(cancellation))

        return await self._preparer.run(tokenize, app)

    async def adetokenize(self, tokens: Sequence[int], *, app: str = "") -> str:
        """Return the text of ``tokens``, special tokens included, without blocking the event loop.

        Raises:
            InvalidRequestError: one is no token of the model's vocabulary.
        """

        def detokenize(_: Cancellation) -> str:
            return self._tokenizer.decode_all(check_tokens(tokens, self._vocabulary_size, "tokens"))

        return await self._preparer.run(detokenize, app)

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of ``text``. The text of a special token in it is that token."""
        native_calls.check()
        return self._tokenizer.encode(text)

    def count_prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Message] | None = None) -> int:
        """Return the number of tokens of a prompt, also of one that is too long.

        It is :attr:`Usage.prompt_tokens` of a generation from ``messages`` and ``tools``.

        Raises:
            InvalidRequestError: the messages or tools are none that :meth:`generate` takes.
        """
        native_calls.check()
        return self._input_processor.count_tokens(messages, tools)

    def generate(self, messages: Prompt, **options: Unpack[GenerationOptions]) -> Generation:
        """Generate one answer and block until it is complete."""
        with (
            self._span(messages, options) as span,
            self._submit(self._preparer.prepare(messages, options), span=span) as pending,
        ):
            return pending.generation()

    async def agenerate(self, messages: Prompt, **options: Unpack[GenerationOptions]) -> Generation:
        """Generate one answer without blocking the event loop. Cancelling the task cancels the request."""
        with (
            self._span(messages, options) as span,
            self._submit(await self._preparer.aprepare(messages, options), span=span) as pending,
        ):
            await asyncio.wrap_future(pending.output)
            return pending.generation()

    def iter_stream(
        self, messages: Prompt, **options: Unpack[GenerationOptions]
    ) -> Generator[GenerationEvent, None, None]:
        """Generate one answer as events; the last is :class:`Finished`.

        The request is checked at once and starts with the first ``next``. Closing the iterator cancels it.
        """
        try:
            request = self._preparer.prepare(messages, options)
        except BaseException:
            with self._span(messages, options, stream=True):
                raise
        return self._events(messages, options, request)

    def _events(
        self, messages: Prompt, options: GenerationOptions, request: Request
    ) -> Generator[GenerationEvent, None, None]:
        pieces = Handover[str | ToolTurn]()
        # The span begins here: an iterator that is never begun could not end it.
        with (
            self._span(messages, options, stream=True) as span,
            self._submit(request, pieces.put, span=span) as pending,
        ):
            pending.output.add_done_callback(lambda _: pieces.close())
            with closing(pieces.batches_blocking()) as batches:
                for batch in batches:
                    yield from pending.feed(batch)
            yield from pending.finish()

    async def stream(
        self, messages: Prompt, **options: Unpack[GenerationOptions]
    ) -> AsyncIterator[GenerationEvent]:
        """Generate one answer as events; the last is :class:`Finished`.

        Closing the iterator, or cancelling the task that waits for it, cancels the request.
        """
        stream = await self.start(messages, **options)
        async with aclosing(stream.events()) as events:
            async for event in events:
                yield event

    async def start(self, messages: Prompt, **options: Unpack[GenerationOptions]) -> GenerationStream:
        """Start one answer and return once the request is checked and accepted; read its events next."""
        with self._span(messages, options, stream=True) as span:
            request = await self._preparer.aprepare(messages, options)
            tools = request.callable_tools
            tool_outputs = ToolOutputs(
                tools,
                tokenize=self._renderer.tokenize_call,
                max_reply_tokens=self.context_length - len(request.prompt_token_ids),
                answers=not request.must_call,
                takes_predicted_calls=self.drafts,
            )
            tool_cache = (
                ToolCacheDrafter(
                    tool_outputs,
                    self._renderer,
                    request.calls_in,
                    self.context_length,
                    self._token_texts,
                )
                if tools
                else None
            )
            return GenerationStream(
                lambda listener: self._submit(request, listener, tool_cache, span), tool_outputs, owner=self
            )

    def _span(
        self, messages: Prompt, options: GenerationOptions, *, stream: bool = False
    ) -> AbstractContextManager[GenerationSpan | None]:
        return generation_span(self.model_id, messages, options, stream=stream)

    def _submit(
        self,
        request: Request,
        listener: OutputListener | None = None,
        tool_cache: ToolCacheDrafter | None = None,
        span: GenerationSpan | None = None,
    ) -> PendingGeneration:
        native_calls.check()
        if span is not None:
            span.submitted(request)
        selected = self.drafter_selector.select(request, tool_cache)
        pending = PendingGeneration(
            self._engine,
            request,
            listener=listener,
            drafters=selected.drafters,
            completer=selected.completer,
            tool_cache=tool_cache,
            span=span,
        )
        if request.context_id:
            self.context_table.track(
                request.app, request.context_id, pending.output, pending.cancel, pending.total_tokens
            )
        pending.output.add_done_callback(selected.add_answer)
        return pending
