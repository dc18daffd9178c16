"""``POST /v1/completions``: the older interface, which continues prompts without a chat template."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AsyncExitStack

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...engine.output.generation_span import answer_as
from ...local.service import LocalRuntime
from ...request.raw_prompt import RawPrompt
from ..http.disconnect import cancel_on_disconnect
from ..http.large_json import large_json_response
from ..http.priority_header import header_priority, priority_headers
from ..http.request_state import app_of
from ..http.streaming import EventStreamResponse
from ..http.strict_json import StrictJsonRoute
from .answer_bound import bound_answers
from .choices import Choice, choice_events, generate_choices, start_choices
from .completions_answer import TextMetadata, TextStream, text_completion_body
from .completions_request import DEFAULT_TOKENS, CompletionRequest
from .server_state import server_state_of
from .session_header import header_session

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/v1/completions", summary="Continue a prompt")
async def completions(body: CompletionRequest, request: Request) -> Response:
    """OpenAI's older completions, whole or as server-sent events. No chat template is applied.

    ``X-Session-ID`` names the conversation, as for chat completions.
    """
    state, app = server_state_of(request), app_of(request)
    model = state.model(body.model)
    body.take_priority(header_priority(request))
    headers = priority_headers(body.runtime_priority)
    options, prompts = body.options(), body.prompts()
    options |= {"app": app, "session": header_session(request)}
    default = state.config.default_max_tokens or DEFAULT_TOKENS
    bound_answers(options, default, len(prompts) * (body.n or 1))
    choices = [
        Choice(prompt, each, functools.partial(body.field_name_of_prompt, index))
        for index, prompt in enumerate(prompts)
        for each in body.choice_options(options)
    ]
    async with AsyncExitStack() as stack:
        stack.enter_context(state.admission.admit(request, body.runtime_priority))
        stack.enter_context(state.pool.hold(model))
        runtime = await state.load(model, request)
        metadata = TextMetadata(runtime, model.name, body.n or 1)
        answer_as(metadata.id)
        if not body.stream:
            generations = await cancel_on_disconnect(request, generate_choices(runtime, choices))
            for generation in generations:
                state.metrics.record(model.name, generation)
            echoed = await _echoed(runtime, body, choices, app)
            return await large_json_response(
                lambda: text_completion_body(metadata, generations, echoed, body.logprobs is not None),
                headers,
            )
        streams = await start_choices(request, runtime, choices, stack)
        usage = metadata.usage_chunk if body.includes_usage else None
        writers = [
            TextStream(metadata, index, text, include_usage=body.includes_usage)
            for index, text in enumerate(await _echoed(runtime, body, choices, app))
        ]
        events = choice_events(state, model.name, writers, streams, usage)
        return EventStreamResponse(events, stack.pop_all().aclose, headers)


async def _echoed(
    runtime: LocalRuntime, body: CompletionRequest, choices: Sequence[Choice], app: str
) -> list[str]:
    """Return the text that precedes each answer, whose prompts have been checked."""
    return [await _text_of(runtime, choice.prompt, app) if body.echo else "" for choice in choices]


async def _text_of(runtime: LocalRuntime, prompt: RawPrompt, app: str) -> str:
    if isinstance(prompt.content, str):
        return prompt.content
    return await runtime.adetokenize(prompt.content, app=app)
