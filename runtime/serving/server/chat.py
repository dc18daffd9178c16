"""``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ...engine.output.generation_span import answer_as
from ...local.service import LocalRuntime
from ...pool.pooled_model import PooledModel
from ...request.options import GenerationOptions
from ..http.disconnect import cancel_on_disconnect
from ..http.large_json import large_json_response
from ..http.priority_header import header_priority, priority_headers
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import EventStreamResponse
from ..http.strict_json import StrictJsonRoute
from .answer_bound import bound_answers
from .chat_answer import ChoiceStream, CompletionMetadata, completion_body
from .chat_request import ChatRequest
from .choices import Choice, Generating, choice_events, generate_choices, start_choices
from .server_state import server_state_of
from .session_header import header_session

router = APIRouter(route_class=StrictJsonRoute)


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
    shared: GenerationOptions = {**body.options(), **options}
    bound_answers(shared, state.config.default_max_tokens, body.n or 1)
    choices = [Choice(body.prompt, each, body.field_name) for each in body.choice_options(shared)]
    async with AsyncExitStack() as stack:
        stack.enter_context(state.admission.admit(request, body.runtime_priority))
        stack.enter_context(state.pool.hold(model))
        runtime = await state.load(model, request)
        answering = generating(runtime)
        metadata = CompletionMetadata(
            runtime, model.name, body.served_tier, body.forces_named_tool, body.functions is not None
        )
        answer_as(metadata.id)
        if not body.stream:
            generations = await cancel_on_disconnect(request, generate_choices(answering, choices))
            for generation in generations:
                state.metrics.record(model.name, generation)
            if body.logprobs:
                return await large_json_response(
                    lambda: completion_body(metadata, generations, True), headers
                )
            return JSONResponse(completion_body(metadata, generations, False), headers=headers)
        streams = await start_choices(request, answering, choices, stack)
        outputs = streams[0].tool_outputs
        stack.enter_context(open_responses_of(request).register(metadata.id, app_of(request), outputs))
        writers = [
            ChoiceStream(metadata, index, include_usage=body.includes_usage) for index in range(len(streams))
        ]
        usage = metadata.usage_chunk if body.includes_usage else None
        events = choice_events(state, model.name, writers, streams, usage)
        return EventStreamResponse(events, stack.pop_all().aclose, headers)
