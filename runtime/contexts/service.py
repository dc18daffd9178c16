"""ContextService: the contexts of one app, which it continues with prompts (LLMS, Table 1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, Unpack

from agentrt.concurrency.native_calls import native_calls
from agentrt.errors import InvalidRequestError, PromptTooLongError

from ..engine.output.answer_messages import AnswerMessages, answer_messages
from ..engine.output.generation import Finished, Generation, GenerationEvent
from ..engine.output.stream import GenerationStream
from ..request.field_names import renamed, sender_names
from ..request.options import GenerationOptions, Message
from ..request.validation import MAX_MESSAGES, plain_messages, unasked_output
from .app_contexts import OpenTurn
from .context import Context, ContextKind
from .table import ContextTable

Prompt: TypeAlias = str | Message | Sequence[Message]
"""What a call adds to a context: a user's text, or chat messages such as the outputs of tools."""

_OPTIONS_OF_THE_SERVICE: Final = ("app", "session", "context_id")

_REMEDIES: Final = {
    ContextKind.SESSION: "It is a session: send the whole conversation with its name, or make a context.",
    ContextKind.RESPONSES: "It is a chain of stored responses: continue it by previous_response_id, or make "
    "a context.",
}

_BEGIN_ANEW: Final = "begin a new context with what still matters of this one"


class ContextRuntime(Protocol):
    """The runtime of a service, as :class:`LocalRuntime` is."""

    max_context_tokens: int

    def check_open(self) -> None:
        """Raise :class:`RuntimeClosedError` if the runtime was closed."""

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""

    async def acount_tokens(self, text: str, *, app: str = "") -> int:
        """Return the number of tokens of a text of ``app``."""

    def generate(self, messages: Sequence[Message], **options: Unpack[GenerationOptions]) -> Generation:
        """Generate one answer."""

    async def agenerate(
        self, messages: Sequence[Message], **options: Unpack[GenerationOptions]
    ) -> Generation:
        """Generate one answer."""

    def iter_stream(
        self, messages: Sequence[Message], **options: Unpack[GenerationOptions]
    ) -> Generator[GenerationEvent, None, None]:
        """Generate one answer as events."""

    async def start(
        self, messages: Sequence[Message], **options: Unpack[GenerationOptions]
    ) -> GenerationStream:
        """Start one answer."""


class ContextService:
    """The contexts of one app (``LLMService`` in LLMS, Table 1). Thread-safe.

    ::

        assistant = runtime.bind("assistant")
        context = assistant.new_context("You are brief.")
        print(assistant.call(context, "Hello!").text)
        print(assistant.call(context, "What did I say?").text)
        assistant.delete(context)

    A context stays until the app deletes it. One call of it runs at a time: a second one raises
    :class:`ContextBusyError` at once, since its prompt may depend on the answer of the first. A call that is
    cancelled or fails leaves the context as it was. Deleting a context cancels the call in progress, which
    raises :class:`ContextNotFoundError`. When a context is longer than the model takes, calls go on without
    its oldest messages, unless their ``truncation`` is ``"disabled"``; its text stays complete.

    Every way to call takes a context or its id, a prompt, and the options of :meth:`LocalRuntime.generate`
    but for ``app``, ``session`` and ``context_id``. It raises the same errors and

    - :class:`ContextNotFoundError`: the app has no such context, or it was deleted meanwhile;
    - :class:`ContextBusyError`: another call of it is in progress;
    - :class:`RuntimeClosedError`: the runtime was closed, as all other methods do then;
    - :class:`InvalidRequestError`: the prompt has the output of a tool call that no message before it makes,
      or ``field`` names what else is wrong with it: ``prompt`` of a text, ``prompt[i]…`` of messages;
    - :class:`ContextStoreError`: the turn cannot be stored; the context is as it was.
    """

    def __init__(self, runtime: ContextRuntime, table: ContextTable, app: str) -> None:
        """``app`` finds its contexts in ``table``; ``runtime`` generates."""
        self._runtime = runtime
        self._contexts = table
        self.app = app

    @property
    def _table(self) -> ContextTable:
        native_calls.check()  # a forked child would write to files of its parent
        self._runtime.check_open()
        return self._contexts

    def new_context(self, system_prompt: str | None = None) -> Context:
        """Return a new context, which begins with the system prompt if there is one.

        Raises:
            ContextQuotaError: the app has as many contexts as it may have.
            PromptTooLongError: the system prompt leaves no room in the context.
            ContextStoreError: the context cannot be stored.
        """
        table, messages = self._table, _system_messages(system_prompt)
        if system_prompt is not None:
            self._check_room(self._runtime.count_tokens(system_prompt))
        return _copy_of(table.create(self.app, messages=messages))

    async def anew_context(self, system_prompt: str | None = None) -> Context:
        """Do as :meth:`new_context` does, without blocking the event loop."""
        table, messages = self._table, _system_messages(system_prompt)
        if system_prompt is not None:
            self._check_room(await self._runtime.acount_tokens(system_prompt, app=self.app))
        return _copy_of(await asyncio.to_thread(table.create, self.app, messages=messages))

    def contexts(self) -> list[Context]:
        """Return the app's contexts, sessions and chains of responses, the most recently used first."""
        return [_copy_of(each) for each in self._table.contexts(self.app)]

    def get(self, context: Context | str) -> Context:
        """Return a context as it is now.

        Raises:
            ContextNotFoundError: the app has no such context.
        """
        return _copy_of(self._table.get(self.app, _id_of(context)))

    def delete(self, context: Context | str) -> None:
        """Delete a context for good, also one that runs.

        Raises:
            ContextNotFoundError: the app has no such context.
            ContextStoreError: it cannot be deleted from the store, and stays.
        """
        self._table.delete(self.app, _id_of(context))

    async def adelete(self, context: Context | str) -> None:
        """Do as :meth:`delete` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete, context)

    def delete_all(self) -> None:
        """Delete everything that is kept of the app for good, in memory and on disk.

        These are its contexts, sessions and stored responses, and the keys and values of requests that named
        none. Calls in progress end as with :meth:`delete`; other requests go on, and leave nothing behind.

        Raises:
            ContextStoreError: some of it cannot be deleted, and is still there. Call it again.
        """
        self._table.delete_all(self.app)

    async def adelete_all(self) -> None:
        """Do as :meth:`delete_all` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete_all)

    def call(
        self, context: Context | str, prompt: Prompt, **options: Unpack[GenerationOptions]
    ) -> Generation:
        """Continue a context with ``prompt``, and block until the answer is complete and stored."""
        with _naming(prompt), self._begin(context, added := _messages_of(prompt)) as turn:
            generation = self._runtime.generate([*turn.messages, *added], **self._options(turn, options))
            _end(turn, [*added, *answer_messages(generation)], generation)
            return generation

    async def acall(
        self, context: Context | str, prompt: Prompt, **options: Unpack[GenerationOptions]
    ) -> Generation:
        """Do as :meth:`call` does, without blocking the event loop. Cancelling the task cancels the call."""
        await self._load()
        with _naming(prompt), self._begin(context, added := _messages_of(prompt)) as turn:
            messages = [*turn.messages, *added]
            generation = await self._runtime.agenerate(messages, **self._options(turn, options))
            await asyncio.to_thread(_end, turn, [*added, *answer_messages(generation)], generation)
            return generation

    def iter_stream(
        self, context: Context | str, prompt: Prompt, **options: Unpack[GenerationOptions]
    ) -> Generator[GenerationEvent, None, None]:
        """Continue a context with ``prompt``; yield the answer as events, of which the last is
        :class:`Finished`, once it is stored.

        The call starts with the first ``next``. Closing the iterator cancels it.
        """
        answer = AnswerMessages()
        with _naming(prompt), self._begin(context, added := _messages_of(prompt)) as turn:
            messages = [*turn.messages, *added]
            with closing(self._runtime.iter_stream(messages, **self._options(turn, options))) as events:
                for event in events:
                    answer.add(event)
                    if isinstance(event, Finished):
                        _end(turn, [*added, *answer.messages()], event.generation)
                    yield event

    async def stream(
        self, context: Context | str, prompt: Prompt, **options: Unpack[GenerationOptions]
    ) -> AsyncIterator[GenerationEvent]:
        """Do as :meth:`iter_stream` does, without blocking the event loop.

        Closing the iterator, or cancelling the task that waits for it, cancels the call.
        """
        stream = await self.start(context, prompt, **options)
        async with aclosing(stream.events()) as events:
            async for event in events:
                yield event

    async def start(
        self, context: Context | str, prompt: Prompt, **options: Unpack[GenerationOptions]
    ) -> ContextStream:
        """Start a call and return once it is checked and accepted; read its events next, or cancel it."""
        await self._load()
        with _naming(prompt):
            added = _messages_of(prompt)
            turn = self._begin(context, added)
            try:
                messages = [*turn.messages, *added]
                stream = await self._runtime.start(messages, **self._options(turn, options))
            except BaseException:
                turn.close()
                raise
        return ContextStream(stream, turn, added)

    def _begin(self, context: Context | str, added: Sequence[Message]) -> OpenTurn:
        found = self.get(context)
        if found.kind is not ContextKind.CONTEXT:
            raise InvalidRequestError("context", f"{found.id!r} cannot be called. {_REMEDIES[found.kind]}")
        turn = self._table.begin_turn(self.app, found.id)
        messages = len(turn.messages) + len(added)
        if messages > MAX_MESSAGES:
            turn.close()
            raise InvalidRequestError(
                "messages",
                f"the context would have {messages} messages, and at most {MAX_MESSAGES} are allowed. "
                f"To go on, {_BEGIN_ANEW}.",
            )
        if (index := unasked_output(turn.messages, added)) is not None:
            turn.close()
            raise InvalidRequestError(
                f"messages[{index}].tool_call_id",
                f"no call of the context has the id {added[index].get('tool_call_id')!r}. Send outputs of "
                "calls that an answer before has made, with their ids.",
            )
        return turn

    async def _load(self) -> None:
        if not self._table.loaded(self.app):
            await asyncio.to_thread(self._table.load, self.app)

    def _options(self, turn: OpenTurn, options: GenerationOptions) -> GenerationOptions:
        for name in _OPTIONS_OF_THE_SERVICE:
            if name in options:
                raise InvalidRequestError(name, "is the service's own. Leave it out.")
        truncation = options.get("truncation") or "auto"
        return {**options, "truncation": truncation, "app": self.app, "context_id": turn.context_id}

    def _check_room(self, tokens: int) -> None:
        """Refuse a system prompt that leaves no room in a context."""
        limit = self._runtime.max_context_tokens
        if tokens >= limit:
            raise PromptTooLongError(
                tokens, limit, "a context", shorten="Shorten the system prompt", field="system_prompt"
            )


class ContextStream:
    """A call of a context in progress, whose events one task reads."""

    def __init__(self, stream: GenerationStream, turn: OpenTurn, prompt: Sequence[Message]) -> None:
        """``stream`` generates the answer to ``prompt``, with which ``turn`` continues the context."""
        self._stream = stream
        self._turn = turn
        self._prompt = prompt
        self.prompt_tokens = stream.prompt_tokens
        """See :attr:`GenerationStream.prompt_tokens`, the context's included."""
        self.tool_outputs = stream.tool_outputs
        """See :attr:`GenerationStream.tool_outputs`."""

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """Yield the events of the answer; the last is :class:`Finished`, once it is stored.

        May be called once. Closing the iterator, or cancelling the task that waits for it, cancels the call.
        """
        answer = AnswerMessages()
        try:
            async with aclosing(self._stream.events()) as events:
                async for event in events:
                    answer.add(event)
                    if isinstance(event, Finished):
                        messages = [*self._prompt, *answer.messages()]
                        await asyncio.to_thread(_end, self._turn, messages, event.generation)
                    yield event
        finally:
            self.cancel()

    def cancel(self) -> None:
        """End the call in any state; without effect if it has ended."""
        self._stream.cancel()
        self._turn.close()


def _end(turn: OpenTurn, messages: Sequence[Message], generation: Generation) -> None:
    """Commit the turn of a complete answer; raise if the answer was cancelled with its context."""
    if generation.finish_reason == "cancelled":
        turn.check_context()
        turn.close()
    else:
        turn.commit(messages, generation.usage.conversation_tokens)


def _copy_of(context: Context) -> Context:
    """Return a snapshot whose messages its owner may change without changing the context."""
    turns = tuple(replace(turn, messages=deepcopy(turn.messages)) for turn in context.turns)
    return replace(context, first_messages=deepcopy(context.first_messages), turns=turns)


def _id_of(context: object) -> str:
    if isinstance(context, Context):
        return context.id
    if not isinstance(context, str):
        raise InvalidRequestError("context", f"{context!r} is no context. Give a context or its id.")
    return context


def _system_messages(prompt: str | None) -> list[dict[str, Any]]:
    with sender_names(lambda _: "system_prompt"):
        return [] if prompt is None else plain_messages([{"role": "system", "content": prompt}])


@contextmanager
def _naming(prompt: object) -> Iterator[None]:
    """Raise the errors of a call as those of its ``prompt``, with what helps where the context is full."""

    def name_of(field: str) -> str:
        if isinstance(prompt, str) and field.startswith("messages"):
            return "prompt"
        one = {"messages[0]": "prompt"} if isinstance(prompt, Mapping) else {}
        return renamed(field, one | {"messages": "prompt"})

    with sender_names(name_of, f"Shorten the prompt, or {_BEGIN_ANEW}"):
        yield


def _messages_of(prompt: object) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        prompt = {"role": "user", "content": prompt}
    return plain_messages([prompt] if isinstance(prompt, Mapping) else prompt)
