"""``POST /v1/chat/completions``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from agentrt.concurrency.merge import merge

from ..http.disconnect import cancel_on_disconnect
from ..http.errors import to_api_error
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import EventStreamResponse
from ..http.strict_json import StrictJsonRoute, compact_json
from ..output.generation import Generation
from ..output.stream import GenerationStream
from ..request.options import GenerationOptions
from .chat_answer import ChoiceStream, Envelope, usage, whole
from .chat_request import ChatRequest
from .state import Service, service_of

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/v1/chat/completions", summary="Generate an answer")
async def chat_completions(body: ChatRequest, request: Request) -> Response:
    """OpenAI's chat completions, whole or as server-sent events."""
    service = service_of(request)
    body.check_model(service.runtime.model_id)
    asked: GenerationOptions = {**body.options(), "app": app_of(request)}
    options = [_of_choice(asked, index) for index in range(body.n or 1)]
    envelope = Envelope(service.runtime, body.served_tier, body.calls_named_tool)
    async with AsyncExitStack() as ending:
        ending.enter_context(service.admission.admit())
        if not body.stream:
            generations = await cancel_on_disconnect(request, _generate(service, body.messages, options))
            for generation in generations:
                service.metrics.answered(generation)
            return JSONResponse(whole(envelope, generations, bool(body.logprobs)))
        running = []
        for choice in options:
            running.append(await service.runtime.start(body.messages, **choice))
            ending.callback(running[-1].cancel)
        outputs = running[0].tool_outputs
        ending.enter_context(open_responses_of(request).register(envelope.id, app_of(request), outputs))
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        events = _events(service, envelope, running, with_usage=with_usage)
        return EventStreamResponse(events, ending.pop_all().aclose)


def _of_choice(options: GenerationOptions, index: int) -> GenerationOptions:
    seed = options.get("seed")
    return options if seed is None else {**options, "seed": seed + index}


async def _generate(
    service: Service, messages: Sequence[Any], options: Sequence[GenerationOptions]
) -> list[Generation]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(service.runtime.agenerate(messages, **choice)) for choice in options]
    except ExceptionGroup as errors:  # all choices fail for one reason
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _events(
    service: Service, envelope: Envelope, running: Sequence[GenerationStream], *, with_usage: bool
) -> AsyncGenerator[str, None]:
    choices = [ChoiceStream(envelope, index, with_usage=with_usage) for index in range(len(running))]
    try:
        for choice in choices:
            yield _event(choice.opening())
        async for index, event in merge([one.events() for one in running]):
            for chunk in choices[index].chunks(event):
                yield _event(chunk)
        generations = [choice.generation for choice in choices if choice.generation is not None]
        for generation in generations:
            service.metrics.answered(generation)
        if with_usage:
            yield _event(envelope.wrap("chat.completion.chunk", [], usage=usage(generations)))
    except Exception as error:
        # The head has been sent: this is the only way left to say it.
        yield _event(to_api_error(error).body())
        raise
    yield "data: [DONE]\n\n"


def _event(body: Mapping[str, Any]) -> str:
    return f"data: {compact_json(body)}\n\n"
