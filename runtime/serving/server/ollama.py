"""Chat, completions, embeddings and models in the form of Ollama, for programs that speak no other.

They are served at a listener of their own (``add_ollama`` of ``app.py``): who finds ``/api/version`` takes
the server for Ollama.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Scope

from agentrt.calls import CallFinished, TextDelta, ToolCall
from agentrt.priority import Priority

from ...engine.output.generation import Finished, Generation, GenerationEvent
from ...local.service import LocalRuntime
from ...pool.embedding_model import EmbeddingModel, Embeddings, Vector
from ...pool.pooled_model import ModelStatus, PooledModel
from ...request.field_names import renamed, sender_names
from ...request.options import GenerationOptions
from ..http.errors import OLLAMA_ROUTES, ApiError
from ..http.request_state import app_of, header_priority, is_owner, priority_headers
from ..http.strict_json import StrictJsonRoute, compact_json
from .answers import AnswerWriter, answer
from .embeddings import EmbeddingRequest, answer_embeddings
from .ollama_requests import (
    OllamaChatRequest,
    OllamaEmbeddingsRequest,
    OllamaEmbedRequest,
    OllamaGenerateRequest,
    OllamaPullRequest,
    OllamaRequest,
    OllamaShowRequest,
)
from .server_state import ServerState, header_session, loaded, server_state_of

_TAG: Final = ":latest"
_CONTENT_TYPE: Final = b"content-type"
_LINES: Final = "application/x-ndjson"
_NEVER: Final = "9999-12-31T23:59:59Z"

_DETAILS: Final[Mapping[str, Any]] = {
    "parent_model": "",
    "format": "openvino",
    "family": "",
    "families": None,
    "parameter_size": "",
    "quantization_level": "",
}


class OllamaRoute(StrictJsonRoute):
    """A route of strict JSON for which no content type is needed.

    ``curl -d`` and LiteLLM's ``ollama/`` provider send JSON as a form or without a type. A web page can send
    such a body without a preflight; the guard has refused it by its ``Origin`` before a route is found.
    """

    def json_scope(self, request: Request) -> Scope:
        """Return the scope of ``request`` with the content type of JSON, as FastAPI needs it."""
        others = [(name, value) for name, value in request.scope["headers"] if name != _CONTENT_TYPE]
        return {**request.scope, "headers": [*others, (_CONTENT_TYPE, b"application/json")]}


class _OllamaWriter(AnswerWriter):
    """Writes the answer to one request, in lines of JSON when it is streamed."""

    media_type = _LINES
    takes_outputs = False

    def __init__(self, request: OllamaRequest) -> None:
        super().__init__(request.model, stream=request.stream is not False)
        self.shorten = request.shorten
        self._request = request
        self._begun = time.perf_counter()
        self._load_s = 0.0

    def field_name(self, field: str, prompt: int) -> str:
        return self._request.field_name(field)

    async def begin(self, runtime: LocalRuntime, stack: AsyncExitStack) -> GenerationOptions:
        self._load_s = time.perf_counter() - self._begun
        return await super().begin(runtime, stack)

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        if isinstance(event, TextDelta):
            yield self._line(event.text)
        elif isinstance(event, CallFinished):
            yield self._line("", (event.call,))
        elif isinstance(event, Finished):
            yield self._line("", **self._end(event.generation))

    def failure(self, error: ApiError) -> Mapping[str, Any]:
        return error.body(OLLAMA_ROUTES)

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        (generation,) = generations
        return self._line(generation.text, generation.tool_calls, **self._end(generation))

    def without_answer(self, reason: str) -> dict[str, Any]:
        """Return the body that says why there is no answer: ``load`` or ``unload``."""
        return self._line("", done=True, done_reason=reason)

    async def encode(self, chunk: Mapping[str, Any]) -> str:
        return f"{compact_json(chunk)}\n"

    def _line(
        self, text: str, calls: tuple[ToolCall, ...] = (), *, done: bool = False, **fields: Any
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {"response": text}
        if isinstance(self._request, OllamaChatRequest):
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if calls:
                message["tool_calls"] = [
                    {"function": {"name": call.name, "arguments": call.arguments}} for call in calls
                ]
            answer = {"message": message}
        return {"model": self.model, "created_at": _now(), **answer, "done": done, **fields}

    def _end(self, generation: Generation) -> Mapping[str, Any]:
        usage, timing = generation.usage, generation.timing
        return {
            "done": True,
            "done_reason": "length" if generation.finish_reason == "length" else "stop",
            "total_duration": _nanoseconds(self._load_s + timing.total_s),
            "load_duration": _nanoseconds(self._load_s),
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(timing.time_to_first_token_s - timing.queued_s),
            "eval_count": usage.completion_tokens,
            "eval_duration": _nanoseconds(timing.total_s - timing.time_to_first_token_s),
        }


def _now() -> str:
    return _iso(datetime.now(UTC))


def _iso(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


router = APIRouter(route_class=OllamaRoute)


@router.post("/api/chat", summary="Generate an answer, in Ollama's form")
async def chat(body: OllamaChatRequest, request: Request) -> Response:
    """Answer messages, in lines of JSON unless ``stream`` is false. Without any the model is loaded."""
    return await _answer(body, request)


@router.post("/api/generate", summary="Answer a prompt, in Ollama's form")
async def generate(body: OllamaGenerateRequest, request: Request) -> Response:
    """Answer one prompt, in lines of JSON unless ``stream`` is false. An empty one loads the model."""
    return await _answer(body, request)


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


@router.get("/api/ps", summary="List the loaded models, in Ollama's form")
async def ps(request: Request) -> JSONResponse:
    """Return the models in memory, and until when they stay there."""
    state = server_state_of(request)
    listed = [
        _listed(model.name) | {"size": model.memory_bytes, "expires_at": _expiry(model)}
        for model in state.pool.models
        if model.status is ModelStatus.LOADED
    ]
    if state.embedding is not None:
        listed.append(_listed(state.embedding.name) | {"size": 0, "expires_at": _NEVER})
    return JSONResponse({"models": [each | {"size_vram": 0} for each in listed]})


@router.post("/api/show", summary="Describe a model, in Ollama's form")
async def show(body: OllamaShowRequest, request: Request) -> JSONResponse:
    """Return what is known of a model; its context length once it was loaded."""
    state = server_state_of(request)
    if (embedding := _embedding(state, body.model)) is not None:
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


@router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def root() -> PlainTextResponse:
    """Return what Ollama's clients look for before they send a request."""
    return PlainTextResponse("Ollama is running")


@router.post("/api/pull", summary="Say whether a model is there, in Ollama's form")
async def pull(body: OllamaPullRequest, request: Request) -> Response:
    """Return that a served model is there. None is downloaded because a client says so."""
    state = server_state_of(request)
    if _embedding(state, body.model) is None and _find(state, body.model) is None:
        raise ApiError(
            404,
            f"the model {body.model!r} is not served here, and clients download none. Run 'agentrt pull "
            "OWNER/NAME' on the server's machine, and start agentrt serve with --model.",
        )
    done = {"status": "success"}
    lines = [done] if body.stream is False else [{"status": "pulling manifest"}, done]
    text = "".join(f"{compact_json(line)}\n" for line in lines)
    return Response(text, media_type="application/json" if body.stream is False else _LINES)


@router.post("/api/create", include_in_schema=False)
@router.post("/api/copy", include_in_schema=False)
@router.delete("/api/delete", include_in_schema=False)
@router.post("/api/push", include_in_schema=False)
@router.api_route("/api/blobs/{digest}", methods=["HEAD", "POST"], include_in_schema=False)
async def refuse(request: Request) -> Response:
    """Refuse what would change the models: those that the server was started with are served."""
    raise ApiError(
        403,
        f"{request.scope['path']} is not served: no client changes the models here. Use agentrt models and "
        "agentrt pull on the server's machine, and start agentrt serve with --model.",
    )


async def _answer(body: OllamaRequest, request: Request) -> Response:
    model = _model(server_state_of(request), body.model)
    if not body.asks:
        return await _without_answer(body, request, model)
    options = body.generation_options()
    options |= {"app": app_of(request), "priority": _priority(request), "session": header_session(request)}
    return await answer(request, model, _OllamaWriter(body), [body.as_prompt()], options)


async def _without_answer(body: OllamaRequest, request: Request, model: PooledModel) -> Response:
    """Load or unload ``model``."""
    priority, reason = _priority(request), "load"
    if body.unloads:
        if not is_owner(request):
            raise ApiError(
                403,
                "other apps use the model, too. Leave keep_alive out, or send the owner's token: the first "
                "app's in the token file.",
                code="owner_only",
            )
        reason = "unload" if await server_state_of(request).pool.unload(model) else "load"
    else:
        async with loaded(request, model, priority):
            pass
    return JSONResponse(_OllamaWriter(body).without_answer(reason), headers=priority_headers(priority))


def _priority(request: Request) -> Priority:
    return header_priority(request) or Priority.REACTIVE


def _find(state: ServerState, name: str) -> PooledModel | None:
    return state.pool.find(name) or state.pool.find(name.removesuffix(_TAG))


def _model(state: ServerState, name: str) -> PooledModel:
    return _find(state, name) or state.model(name)


def _embedding(state: ServerState, name: str) -> EmbeddingModel | None:
    """Return the embedding model if this is its name."""
    model = state.embedding
    return model if model is not None and model.name in (name, name.removesuffix(_TAG)) else None


def _expiry(model: PooledModel) -> str:
    """Return when ``model``, which is loaded, is unloaded if no request comes."""
    if model.idle_timer is None:
        return _NEVER
    left = model.idle_timer.when() - asyncio.get_running_loop().time()
    return _iso(datetime.now(UTC) + timedelta(seconds=left))


def _shown(name: str, capabilities: list[str], length: Mapping[str, int]) -> dict[str, Any]:
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _DETAILS,
        "model_info": {"general.architecture": "agentrt", "general.basename": name, **length},
        "capabilities": capabilities,
        "modified_at": _now(),
    }


def _listed(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": _now(),
        "digest": hashlib.sha256(name.encode()).hexdigest(),  # of the name: clients tell models apart by it
        "details": _DETAILS,
    }


@router.post("/api/embed", summary="Embed texts, in Ollama's form")
async def embed(body: OllamaEmbedRequest, request: Request) -> Response:
    """Return the vectors of one or several texts, of length 1."""
    write = functools.partial(_embed_body, body.model, time.perf_counter())
    with sender_names(body.field_name):
        return await _embed(body, request, write)


@router.post("/api/embeddings", summary="Embed a text, in Ollama's older form")
async def embeddings(body: OllamaEmbeddingsRequest, request: Request) -> Response:
    """Return the vector of a text, of length 1."""
    texts = EmbeddingRequest(model=body.model, input=body.prompt)
    with sender_names(lambda field: renamed(texts.field_name(field), {"input": "prompt"})):
        return await _embed(texts, request, _embeddings_body)


async def _embed(
    body: EmbeddingRequest, request: Request, write: Callable[[Embeddings, Iterator[Vector]], bytes]
) -> Response:
    state, name = server_state_of(request), body.model or ""
    model = _embedding(state, name) or state.embedding_model(name)
    body.take_priority(header_priority(request))
    return await answer_embeddings(body, request, model, write)


def _embed_body(model: str, began: float, found: Embeddings, vectors: Iterator[Vector]) -> bytes:
    numbers = ",".join(compact_json(vector.tolist()) for vector in vectors)
    fields = {
        "model": model,
        "total_duration": _nanoseconds(time.perf_counter() - began),
        "load_duration": 0,  # it is loaded when the server starts
        "prompt_eval_count": found.tokens,
    }
    return f'{{"embeddings":[{numbers}],{compact_json(fields)[1:]}'.encode()


def _embeddings_body(_: Embeddings, vectors: Iterator[Vector]) -> bytes:
    (vector,) = vectors
    return compact_json({"embedding": vector.tolist()}).encode()
