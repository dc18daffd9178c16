"""The answers to one request, generated together or streamed side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, Protocol, TypeAlias, Unpack

from fastapi import Request

from agentrt.concurrency.merge import merge
from agentrt.errors import AgentRTError

from ...contexts.service import ContextStream
from ...engine.output.generation import Generation, GenerationEvent, LogprobsDelta
from ...engine.output.stream import GenerationStream
from ...request.field_names import sender_names
from ...request.options import GenerationOptions
from ..http.disconnect import cancel_on_disconnect
from ..http.errors import to_api_error
from ..http.strict_json import compact_json
from .server_state import ServerState

AnswerStream: TypeAlias = GenerationStream | ContextStream


class Generating(Protocol):
    """What generates answers: a runtime, or a context of one."""

    async def agenerate(self, messages: Any, **options: Unpack[GenerationOptions]) -> Generation:
        """Generate one answer."""
        ...

    async def start(self, messages: Any, **options: Unpack[GenerationOptions]) -> AnswerStream:
        """Start one answer."""
        ...


class Choice(NamedTuple):
    """One answer of a request."""

    prompt: Any
    """Messages or a raw prompt."""
    options: GenerationOptions
    field_name: Callable[[str], str]
    """Returns the request's name for a field that an error of the runtime names."""


class ChoiceWriter(Protocol):
    """Turns the events of one answer into the chunks of a stream."""

    generation: Generation | None
    """The generation, once it has ended."""

    def opening_chunks(self) -> Iterable[Mapping[str, Any]]:
        """Return what is sent before anything is generated."""
        ...

    def chunks(self, event: GenerationEvent) -> Iterable[Mapping[str, Any]]:
        """Return the chunks for one event."""
        ...


async def generate_choices(generating: Generating, choices: Sequence[Choice]) -> list[Generation]:
    """Return the generation of each choice."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_generate(generating, choice)) for choice in choices]
    except ExceptionGroup as errors:  # one error ends all choices
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _generate(generating: Generating, choice: Choice) -> Generation:
    with sender_names(choice.field_name):
        return await generating.agenerate(choice.prompt, **choice.options)


async def start_choices(
    request: Request, generating: Generating, choices: Sequence[Choice], stack: AsyncExitStack
) -> list[AnswerStream]:
    """Start each choice; ``stack`` cancels them when it is closed."""
    streams = []
    for choice in choices:
        starting = generating.start(choice.prompt, **choice.options)
        with sender_names(choice.field_name):
            streams.append(await cancel_on_disconnect(request, starting))
        stack.callback(streams[-1].cancel)
    return streams


async def choice_events(
    state: ServerState,
    model: str,
    writers: Sequence[ChoiceWriter],
    streams: Sequence[AnswerStream],
    usage_chunk: Callable[[Sequence[Generation]], Mapping[str, Any]] | None,
) -> AsyncGenerator[str, None]:
    """Yield the answers of ``streams`` as OpenAI's server-sent events, each by its writer.

    ``model`` is the name under which they are counted. ``usage_chunk`` returns the last chunk; None sends
    none.
    """
    try:
        for writer in writers:
            for chunk in writer.opening_chunks():
                yield _encode_event(chunk)
        async for index, event in merge([stream.events() for stream in streams]):
            for chunk in writers[index].chunks(event):
                yield _encode_event(chunk)
            if isinstance(event, LogprobsDelta):
                await asyncio.sleep(0)  # many may have come while the client did not read
        generations = [writer.generation for writer in writers if writer.generation is not None]
        for generation in generations:
            state.metrics.record(model, generation)
        if usage_chunk is not None:
            yield _encode_event(usage_chunk(generations))
    except Exception as error:
        # The response's head has been sent, so the error can only be reported as an event.
        yield _encode_event(to_api_error(error).body())
        if not isinstance(error, AgentRTError):
            raise  # unexpected: to be logged
        return
    yield "data: [DONE]\n\n"


def _encode_event(body: Mapping[str, Any]) -> str:
    return f"data: {compact_json(body)}\n\n"
