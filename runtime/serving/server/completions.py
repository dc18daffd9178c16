"""``POST /v1/chat/completions``, and ``POST /v1/completions``, which continues prompts without a template."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..http.request_state import app_of
from ..http.strict_json import StrictJsonRoute
from .answers import answer
from .chat_answer import ChatWriter
from .chat_request import ChatRequest
from .completions_answer import CompletionWriter
from .completions_request import CompletionRequest
from .server_state import header_session, server_state_of

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/v1/chat/completions", summary="Generate an answer")
async def chat_completions(body: ChatRequest, request: Request) -> Response:
    """OpenAI's chat completions, whole or as server-sent events.

    ``X-Session-ID`` names the conversation, which is then listed as a context.
    """
    model = server_state_of(request).model(body.model)
    body.take_priority(request)
    options = body.options()
    options |= {"app": app_of(request), "session": header_session(request)}
    return await answer(request, model, ChatWriter(model.name, body), [body.prompt], options)


@router.post("/v1/completions", summary="Continue a prompt")
async def completions(body: CompletionRequest, request: Request) -> Response:
    """OpenAI's older completions, whole or as server-sent events. No chat template is applied.

    ``X-Session-ID`` names the conversation, as for chat completions.
    """
    app, model = app_of(request), server_state_of(request).model(body.model)
    body.take_priority(request)
    options = body.options()
    options |= {"app": app, "session": header_session(request)}
    return await answer(request, model, CompletionWriter(model.name, body, app), body.prompts(), options)
