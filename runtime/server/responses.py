"""``POST /v1/responses``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ..http.disconnect import cancel_on_disconnect
from ..http.errors import to_api_error
from ..http.request_state import app_of, open_responses_of
from ..http.streaming import EventStreamResponse
from ..http.strict_json import StrictJsonRoute, compact_json
from ..output.generation import Finished
from ..output.stream import GenerationStream
from .priority_header import header_priority, priority_headers
from .responses_answer import Event, ResponseWriter, response_body
from .responses_request import ResponsesRequest
from .server_state import ServerState, server_state_of

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/v1/responses", summary="Generate a response")
async def responses(body: ResponsesRequest, request: Request) -> Response:
    """OpenAI's responses, whole or as typed server-sent events. Nothing is stored."""
    state = server_state_of(request)
    model = state.model(body.model)
    body.take_priority(header_priority(request))
    headers = priority_headers(body.runtime_priority)
    messages, options = body.messages(), body.options()
    options["app"] = app_of(request)
    async with AsyncExitStack() as stack:
        stack.enter_context(state.admission.admit())
        stack.enter_context(state.pool.hold(model))
        runtime = await state.load(model, request)
        writer = ResponseWriter(runtime, model.name, body)
        if not body.stream:
            generation = await cancel_on_disconnect(request, runtime.agenerate(messages, **options))
            state.metrics.record(model.name, generation)
            return JSONResponse(response_body(writer, generation), headers=headers)
        stream = await runtime.start(messages, **options)
        stack.callback(stream.cancel)
        outputs = stream.tool_outputs
        stack.enter_context(open_responses_of(request).register(writer.id, app_of(request), outputs))
        return EventStreamResponse(_events(state, writer, stream), stack.pop_all().aclose, headers)


async def _events(
    state: ServerState, writer: ResponseWriter, stream: GenerationStream
) -> AsyncGenerator[str, None]:
    try:
        for event in writer.opening_events():
            yield _encode_event(event)
        async with aclosing(stream.events()) as generated:
            async for step in generated:
                for event in writer.events(step):
                    yield _encode_event(event)
                if isinstance(step, Finished):
                    state.metrics.record(writer.model, step.generation)
    except Exception as error:
        # The response's head has been sent, so the error can only be reported as an event.
        yield _encode_event(writer.failure(to_api_error(error).body()["error"]))
        raise


def _encode_event(event: Event) -> str:
    return f"event: {event['type']}\ndata: {compact_json(event)}\n\n"
