"""``POST /v1/chat/completions``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol, Unpack

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from agentrt.concurrency.merge import merge
from agentrt.errors import AgentRTError

from ..context_service.service import ContextStream
from ..http.disconnect import cancel_on_disconnect
from ..http.errors import to_api_error
from ..http.priority_header import header_priority, priority_headers
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import EventStreamResponse
from ..http.strict_json import StrictJsonRoute, compact_json
from ..output.generation import Generation
from ..output.stream import GenerationStream
from ..pool.pooled_model import PooledModel
from ..request.options import GenerationOptions
from ..service import LocalRuntime
from .chat_answer import ChoiceStream, CompletionMetadata, completion_body, usage_body
from .chat_request import ChatRequest
from .server_state import ServerState, server_state_of
from .session_header import header_session

router = APIRouter(route_class=StrictJsonRoute)


class Generating(Protocol):
    """What answers a chat request: a runtime, or a context of one."""

    async def agenerate(self, messages: Sequence[Any], **options: Unpack[GenerationOptions]) -> Generation:
        """Generate one answer."""
        ...

    async def start(
        self, messages: Sequence[Any], **options: Unpack[GenerationOptions]
    ) -> GenerationStream | ContextStream:
        """Start one answer."""
        ...


@router.post("/v1/chat/completions", summary="Generate an answer")
async def chat_completions(body: ChatRequest, request: Request) -> Response:
    """OpenAI's chat completions, whole or as server-sent events.

    ``X-Session-ID`` names the conversation, which is then listed as a context.
    """
    app, session = app_of(request), header_session(request)
    options: GenerationOptions = {"app": app, "session": session}
    return await answer_chat(body, request, server_state_of(request).model(body.model), options)


async def answer_chat(
    body: ChatRequest,
    request: Request,
    model: PooledModel,
    options: GenerationOptions,
    generating: Callable[[LocalRuntime], Generating] = lambda runtime: runtime,
) -> Response:
    """Answer a chat request by ``model``: ``generating`` returns what of its runtime generates.

    ``options`` are added to those of ``body``.
    """
    state = server_state_of(request)
    body.take_priority(header_priority(request))
    headers = priority_headers(body.runtime_priority)
    shared_options: GenerationOptions = {**body.options(), **options}
    choices = [_choice_options(shared_options, index) for index in range(body.n or 1)]
    async with AsyncExitStack() as stack:
        stack.enter_context(state.admission.admit(request, body.runtime_priority))
        stack.enter_context(state.pool.hold(model))
        runtime = await state.load(model, request)
        answering = generating(runtime)
        metadata = CompletionMetadata(runtime, model.name, body.served_tier, body.forces_named_tool)
        if not body.stream:
            generations = await cancel_on_disconnect(request, _generate(answering, body.messages, choices))
            for generation in generations:
                state.metrics.record(model.name, generation)
            return JSONResponse(completion_body(metadata, generations, bool(body.logprobs)), headers=headers)
        streams = []
        for choice in choices:
            starting = answering.start(body.messages, **choice)
            streams.append(await cancel_on_disconnect(request, starting))
            stack.callback(streams[-1].cancel)
        outputs = streams[0].tool_outputs
        stack.enter_context(open_responses_of(request).register(metadata.id, app_of(request), outputs))
        events = _events(state, metadata, streams, include_usage=body.includes_usage)
        return EventStreamResponse(events, stack.pop_all().aclose, headers)


def _choice_options(options: GenerationOptions, index: int) -> GenerationOptions:
    seed = options.get("seed")
    return options if seed is None else {**options, "seed": seed + index}


async def _generate(
    answering: Generating, messages: Sequence[Any], options: Sequence[GenerationOptions]
) -> list[Generation]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(answering.agenerate(messages, **choice)) for choice in options]
    except ExceptionGroup as errors:  # all choices fail for one reason
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _events(
    state: ServerState,
    metadata: CompletionMetadata,
    streams: Sequence[GenerationStream | ContextStream],
    *,
    include_usage: bool,
) -> AsyncGenerator[str, None]:
    choices = [ChoiceStream(metadata, index, include_usage=include_usage) for index in range(len(streams))]
    try:
        for choice in choices:
            yield _encode_event(choice.opening_chunk())
        async for index, event in merge([stream.events() for stream in streams]):
            for chunk in choices[index].chunks(event):
                yield _encode_event(chunk)
        generations = [choice.generation for choice in choices if choice.generation is not None]
        for generation in generations:
            state.metrics.record(metadata.model, generation)
        if include_usage:
            usage = usage_body(generations)
            yield _encode_event(metadata.body("chat.completion.chunk", [], usage=usage))
    except Exception as error:
        # The response's head has been sent, so the error can only be reported as an event.
        yield _encode_event(to_api_error(error).body())
        if not isinstance(error, AgentRTError):
            raise  # unexpected: to be logged
        return
    yield "data: [DONE]\n\n"


def _encode_event(body: Mapping[str, Any]) -> str:
    return f"data: {compact_json(body)}\n\n"
