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
from .responses_answer import Event, ResponseWriter, whole
from .responses_request import ResponsesRequest
from .state import Service, service_of

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/v1/responses", summary="Generate a response")
async def responses(body: ResponsesRequest, request: Request) -> Response:
    """OpenAI's responses, whole or as typed server-sent events. Nothing is stored."""
    service = service_of(request)
    body.check_model(service.runtime.model_id)
    messages, options = body.messages(), body.options()
    options["app"] = app_of(request)
    writer = ResponseWriter(service.runtime, body)
    async with AsyncExitStack() as ending:
        ending.enter_context(service.admission.admit())
        if not body.stream:
            generation = await cancel_on_disconnect(request, service.runtime.agenerate(messages, **options))
            service.metrics.answered(generation)
            return JSONResponse(whole(writer, generation))
        running = await service.runtime.start(messages, **options)
        ending.callback(running.cancel)
        outputs = running.tool_outputs
        ending.enter_context(open_responses_of(request).register(writer.id, app_of(request), outputs))
        return EventStreamResponse(_events(service, writer, running), ending.pop_all().aclose)


async def _events(
    service: Service, writer: ResponseWriter, running: GenerationStream
) -> AsyncGenerator[str, None]:
    try:
        for first in writer.opening():
            yield _event(first)
        async with aclosing(running.events()) as steps:
            async for step in steps:
                for event in writer.events(step):
                    yield _event(event)
                if isinstance(step, Finished):
                    service.metrics.answered(step.generation)
    except Exception as error:
        # The head has been sent: this is the only way left to say it.
        yield _event(writer.failure(to_api_error(error).body()["error"]))
        raise


def _event(event: Event) -> str:
    return f"event: {event['type']}\ndata: {compact_json(event)}\n\n"
