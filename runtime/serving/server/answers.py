"""The answers to one request: generated whole or streamed, and written in the form of an interface."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial
from typing import Any, ClassVar, Final

from fastapi import Request
from fastapi.responses import Response

from agentrt.concurrency.merge import merge
from agentrt.errors import AgentRTError, InvalidRequestError
from agentrt.priority import Priority

from ...contexts.service import ContextStream
from ...engine.output.generation import Finished, Generation, GenerationEvent, LogprobsDelta
from ...engine.output.generation_span import answer_as
from ...engine.output.stream import GenerationStream
from ...local.service import LocalRuntime
from ...pool.pooled_model import PooledModel
from ...request.field_names import in_sender_names, sender_names
from ...request.options import GenerationOptions, Prompt
from ..http.errors import ApiError, to_api_error
from ..http.request_state import app_of, open_responses_of, priority_headers
from ..http.streaming import ClosingStreamingResponse, cancel_on_disconnect
from ..http.strict_json import compact_json, large_json_response
from ..tool_cache_route import TAKES_PREDICTED_CALLS
from .server_state import ServerState, loaded, server_state_of

MAX_LOGPROBS: Final = 1 << 16
"""Of all answers to one request: some 100 bytes each in memory until they are sent, as much
again in the body, and some microseconds to write."""


class AnswerWriter(ABC):
    """Writes the answers to one request as an interface has them, whole and in the chunks of a stream."""

    media_type: ClassVar = "text/event-stream"
    end: ClassVar[str] = ""
    """What a stream without an error ends with."""
    takes_outputs: ClassVar = True
    """Whether clients can add tool outputs to the response while it is streamed."""
    default_tokens: ClassVar[int | None] = None
    """Tokens of an answer where neither the request nor the server has a number; None for as many as fit."""

    runtime: LocalRuntime
    """What generates the answers, from :meth:`begin` on."""
    prompt_tokens: int = 0
    """Tokens of the first prompt of a stream, from :meth:`opening` on."""
    shorten: str | None = None
    """How the sender can shorten a prompt that is too long; None for what errors say of messages."""

    def __init__(self, model: str, *, stream: bool, id: str = "", answers: int = 1) -> None:
        """``model`` is the model's name in this server, ``answers`` how many each prompt has.

        ``id`` is that of the response; empty if it has none.
        """
        self.model = model
        self.stream = stream
        self.id = id
        self.answers = answers

    @abstractmethod
    def field_name(self, field: str, prompt: int) -> str:
        """Return the request's name for a field that an error of its prompt of this index names."""

    async def begin(self, runtime: LocalRuntime, stack: AsyncExitStack) -> GenerationOptions:
        """Take the runtime, which is loaded, and return further options.

        ``stack`` is closed with the response.
        """
        self.runtime = runtime
        return {}

    async def accept(self, prompts: Sequence[Prompt]) -> None:  # noqa: B027 - most writers do nothing
        """Note that the prompts are valid: their answers have begun."""

    def opening(self) -> Iterable[Mapping[str, Any]]:
        """Return the chunks that are sent before anything is generated."""
        return ()

    @abstractmethod
    def chunks(self, index: int, event: GenerationEvent) -> Iterable[Mapping[str, Any]]:
        """Return the chunks for one event of the answer of this index."""

    def finish(self, generation: Generation) -> None:  # noqa: B027 - most writers do nothing
        """Store an answer, which is complete, before the client reads so. Called in a thread."""

    def closing(self, generations: Sequence[Generation]) -> Iterable[Mapping[str, Any]]:
        """Return the last chunks."""
        return ()

    def failure(self, error: ApiError) -> Mapping[str, Any]:
        """Return the chunk that ends a stream which failed."""
        return error.body()

    @abstractmethod
    def body(self, generations: Sequence[Generation]) -> Mapping[str, Any]:
        """Return the body of a response that is not streamed. Called in a thread."""

    async def encode(self, chunk: Mapping[str, Any]) -> str:
        """Return a chunk as it is sent."""
        return f"data: {compact_json(chunk)}\n\n"


async def answer(
    request: Request,
    model: PooledModel,
    writer: AnswerWriter,
    prompts: Sequence[Prompt],
    options: GenerationOptions,
    context_id: str | None = None,
) -> Response:
    """Answer each prompt by ``model``, as often as ``writer`` says. With a seed, each answer has its own.

    The answers continue the context of ``context_id``, if there is one.
    """
    state, priority = server_state_of(request), options.get("priority") or Priority.REACTIVE
    headers = priority_headers(priority)
    with _names(writer, 0):
        default = state.config.default_max_tokens or writer.default_tokens
        bound_answers(options, default, len(prompts) * writer.answers)
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(loaded(request, model, priority))
        options = {**options, **await writer.begin(runtime, stack)}
        if writer.id:
            answer_as(writer.id)
        generate: Callable[..., Coroutine[Any, Any, Generation]] = runtime.agenerate
        start: Callable[..., Awaitable[GenerationStream | ContextStream]] = runtime.start
        if context_id is not None:
            contexts = runtime.bind(app_of(request))
            generate, start = partial(contexts.acall, context_id), partial(contexts.start, context_id)
        seed = options.get("seed")
        asked = [
            (index, prompt, options if seed is None else {**options, "seed": seed + number})
            for index, prompt in enumerate(prompts)
            for number in range(writer.answers)
        ]
        if not writer.stream:
            generations = await cancel_on_disconnect(request, _generate(generate, writer, asked))
            for generation in generations:
                state.metrics.record(model.name, generation)
            await writer.accept(prompts)
            return await large_json_response(lambda: _finished_body(writer, generations), headers)
        streams = []
        for index, prompt, each in asked:
            with _names(writer, index):
                streams.append(await cancel_on_disconnect(request, start(prompt, **each)))
            stack.callback(streams[-1].cancel)
        writer.prompt_tokens = streams[0].prompt_tokens
        await writer.accept(prompts)
        if writer.takes_outputs:
            outputs = streams[0].tool_outputs
            stack.enter_context(open_responses_of(request).register(writer.id, app_of(request), outputs))
        return ClosingStreamingResponse(
            _stream(state, model.name, writer, streams),
            stack.pop_all().aclose,
            media_type=writer.media_type,
            headers={"cache-control": "no-store", **headers},
        )


def bound_answers(options: GenerationOptions, default: int | None, answers: int = 1) -> None:
    """Set ``max_tokens`` of ``options`` where the request has none: ``default`` tokens, if it is a number.

    All ``answers`` have at most :data:`MAX_LOGPROBS` log probabilities together.

    Raises:
        InvalidRequestError: the request asks for more of them by a larger ``max_tokens``.
    """
    given, alternatives = options.get("max_tokens"), options.get("logprobs")
    bound = default if given is None else given
    if alternatives is not None:
        most = max(1, MAX_LOGPROBS // (answers * (1 + alternatives)))
        if given is not None and given > most:
            raise InvalidRequestError(
                "logprobs",
                f"{answers} answers of {given} tokens with {alternatives} alternatives each have more than "
                f"{MAX_LOGPROBS} log probabilities. Ask for at most {most} tokens, or for fewer alternatives "
                "or answers.",
            )
        bound = most if bound is None else min(bound, most)
    if bound is not None:
        options["max_tokens"] = bound


def _names(writer: AnswerWriter, prompt: int) -> AbstractContextManager[None]:
    return sender_names(lambda field: writer.field_name(field, prompt), writer.shorten)


async def _generate(
    generate: Callable[..., Coroutine[Any, Any, Generation]],
    writer: AnswerWriter,
    asked: Sequence[tuple[int, Prompt, GenerationOptions]],
) -> list[Generation]:
    async def generate_one(index: int, prompt: Prompt, options: GenerationOptions) -> Generation:
        with _names(writer, index):
            return await generate(prompt, **options)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(generate_one(*each)) for each in asked]
    except ExceptionGroup as errors:  # one error ends all answers
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _finished_body(writer: AnswerWriter, generations: Sequence[Generation]) -> Mapping[str, Any]:
    body = writer.body(generations)
    for generation in generations:
        writer.finish(generation)
    return body


async def _stream(
    state: ServerState, model: str, writer: AnswerWriter, streams: Sequence[GenerationStream | ContextStream]
) -> AsyncGenerator[str, None]:
    """Yield what a client receives of ``streams``, which are counted as answers of ``model``."""
    generations: dict[int, Generation] = {}
    try:
        told = {}
        if writer.takes_outputs and streams[0].tool_outputs.takes_predicted_calls:
            told = {TAKES_PREDICTED_CALLS: True}
        for chunk in writer.opening():
            yield await writer.encode({**chunk, **told})
            told = {}
        async for index, event in merge([stream.events() for stream in streams]):
            chunks = list(writer.chunks(index, event))
            if isinstance(event, Finished):
                generations[index] = event.generation
                state.metrics.record(model, event.generation)
                await asyncio.to_thread(writer.finish, event.generation)
            for chunk in chunks:
                yield await writer.encode(chunk)
            if isinstance(event, LogprobsDelta):
                await asyncio.sleep(0)  # many may have come while the client did not read
        for chunk in writer.closing([generations[index] for index in sorted(generations)]):
            yield await writer.encode(chunk)
    except Exception as error:
        # The response's head has been sent, so the error can only be reported as a chunk.
        named = in_sender_names(error, lambda field: writer.field_name(field, 0), writer.shorten)
        yield await writer.encode(writer.failure(to_api_error(named)))
        if not isinstance(error, AgentRTError):
            raise  # unexpected: to be logged
        return
    if writer.end:
        yield writer.end
