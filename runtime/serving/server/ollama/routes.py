"""``/api/chat``, ``/api/generate``, ``/api/tags``, ``/api/show`` and ``/api/version``."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from importlib import metadata
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from agentrt.errors import AgentRTError
from agentrt.priority import Priority

from ....engine.output.generation import Finished
from ....pool.pooled_model import PooledModel
from ....request.field_names import in_sender_names, sender_names
from ....request.options import GenerationOptions, Prompt
from ...http.disconnect import cancel_on_disconnect
from ...http.errors import OLLAMA_ROUTES, to_api_error
from ...http.priority_header import header_priority, priority_headers
from ...http.request_state import app_of
from ...http.streaming import ClosingStreamingResponse
from ...http.strict_json import compact_json
from ..answer_bound import bound_answers
from ..choices import AnswerStream
from ..server_state import ServerState, server_state_of
from ..session_header import header_session
from .answers import OllamaWriter, now
from .json_route import OllamaRoute
from .requests import OllamaChatRequest, OllamaGenerateRequest, OllamaRequest, OllamaShowRequest, without_tag

router = APIRouter(route_class=OllamaRoute)


@router.post("/api/chat", summary="Generate an answer, in Ollama's form")
async def chat(body: OllamaChatRequest, request: Request) -> Response:
    """Answer messages, in lines of JSON unless ``stream`` is false."""
    return await _answer(body, request, body.prompt(), {"tools": body.tools})


@router.post("/api/generate", summary="Answer a prompt, in Ollama's form")
async def generate(body: OllamaGenerateRequest, request: Request) -> Response:
    """Answer one prompt, in lines of JSON unless ``stream`` is false. An empty one loads the model."""
    return await _answer(body, request, body.messages() if body.prompt else None, {})


@router.get("/api/tags", summary="List the models, in Ollama's form")
async def tags(request: Request) -> JSONResponse:
    """Return all names of all models that answer."""
    state = server_state_of(request)
    listed = [
        _listed(name) | {"size": model.memory_bytes} for model in state.pool.models for name in model.names
    ]
    if state.embedding is not None:
        listed.append(_listed(state.embedding.name))
    return JSONResponse({"models": listed})


@router.post("/api/show", summary="Describe a model, in Ollama's form")
async def show(body: OllamaShowRequest, request: Request) -> JSONResponse:
    """Return what is known of a model; its context length once it was loaded."""
    state = server_state_of(request)
    embedding = state.embedding
    if embedding is not None and embedding.name in (body.model, without_tag(body.model)):
        length = {"agentrt.context_length": embedding.max_tokens}
        return JSONResponse(_shown(embedding.name, ["embedding"], length))
    model = _model(state, body.model)
    length = {} if model.context_length is None else {"agentrt.context_length": model.context_length}
    capabilities = ["completion", *(["tools"] if model.takes_tools else [])]
    return JSONResponse(_shown(model.name, capabilities, length))


@router.get("/api/version", summary="Return the version, in Ollama's form")
async def version() -> JSONResponse:
    """Return the version of agentrt."""
    return JSONResponse({"version": metadata.version("agentrt")})


async def _answer(
    body: OllamaRequest, request: Request, prompt: Prompt | None, more: GenerationOptions
) -> Response:
    """Answer ``prompt`` with ``more`` options than those of ``body``; None only loads the model."""
    state = server_state_of(request)
    model = _model(state, body.model)
    priority = header_priority(request) or Priority.REACTIVE
    headers = priority_headers(priority)
    options: GenerationOptions = {**body.generation_options(), **more}
    options |= {"app": app_of(request), "priority": priority, "session": header_session(request)}
    bound_answers(options, state.config.default_max_tokens)
    begun = time.perf_counter()
    async with AsyncExitStack() as stack:
        stack.enter_context(sender_names(body.field_name, body.shorten))
        stack.enter_context(state.admission.admit(request, priority))
        stack.enter_context(state.pool.hold(model))
        runtime = await state.load(model, request)
        load_s = time.perf_counter() - begun
        writer = OllamaWriter(body.model, load_s, chats="tools" in more)
        if prompt is None:
            return JSONResponse(writer.loaded(), headers=headers)
        if body.stream is False:
            generation = await cancel_on_disconnect(request, runtime.agenerate(prompt, **options))
            state.metrics.record(model.name, generation)
            return JSONResponse(writer.body(generation), headers=headers)
        stream = await cancel_on_disconnect(request, runtime.start(prompt, **options))
        stack.callback(stream.cancel)
        return ClosingStreamingResponse(
            _lines(state, model.name, writer, stream, body.field_name),
            stack.pop_all().aclose,
            media_type="application/x-ndjson",
            headers={"cache-control": "no-store", **headers},
        )


async def _lines(
    state: ServerState,
    model: str,
    writer: OllamaWriter,
    stream: AnswerStream,
    field_name: Callable[[str], str],
) -> AsyncGenerator[str, None]:
    try:
        async with aclosing(stream.events()) as events:
            async for event in events:
                for line in writer.lines(event):
                    yield _encode(line)
                if isinstance(event, Finished):
                    state.metrics.record(model, event.generation)
    except Exception as error:
        # The response's head has been sent, so the error can only be reported as a line.
        yield _encode(to_api_error(in_sender_names(error, field_name)).body(OLLAMA_ROUTES))
        if not isinstance(error, AgentRTError):
            raise  # unexpected: to be logged


def _encode(line: Mapping[str, Any]) -> str:
    return f"{compact_json(line)}\n"


def _model(state: ServerState, name: str) -> PooledModel:
    found = state.pool.find(name)
    return state.model(without_tag(name)) if found is None else found


_DETAILS: Final[Mapping[str, Any]] = {
    "parent_model": "",
    "format": "openvino",
    "family": "",
    "families": None,
    "parameter_size": "",
    "quantization_level": "",
}


def _shown(name: str, capabilities: list[str], length: Mapping[str, int]) -> dict[str, Any]:
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _DETAILS,
        "model_info": {"general.architecture": "agentrt", "general.basename": name, **length},
        "capabilities": capabilities,
        "modified_at": now(),
    }


def _listed(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": now(),
        "digest": hashlib.sha256(name.encode()).hexdigest(),  # of the name: clients tell models apart by it
        "details": _DETAILS,
    }
