"""Chat, completions, embeddings and models in the form of Ollama, for programs that speak no other."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.types import Scope

from agentrt.calls import CallFinished, TextDelta, ToolCall
from agentrt.priority import Priority

from ...engine.output.generation import Finished, Generation, GenerationEvent
from ...local.service import LocalRuntime
from ...pool.embedding_model import Embeddings, Vector
from ...pool.pooled_model import PooledModel
from ...request.field_names import renamed, sender_names
from ...request.options import GenerationOptions
from ..http.errors import OLLAMA_ROUTES, ApiError
from ..http.request_state import app_of, header_priority, priority_headers
from ..http.strict_json import StrictJsonRoute, compact_json
from .answers import AnswerWriter, answer
from .embeddings import EmbeddingRequest, answer_embeddings
from .ollama_requests import (
    OllamaChatRequest,
    OllamaEmbeddingsRequest,
    OllamaEmbedRequest,
    OllamaGenerateRequest,
    OllamaRequest,
    OllamaShowRequest,
    without_tag,
)
from .server_state import ServerState, header_session, loaded, server_state_of

_CONTENT_TYPE: Final = b"content-type"


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


class OllamaWriter(AnswerWriter):
    """Writes the answer to one request, in lines of JSON when it is streamed."""

    media_type = "application/x-ndjson"
    takes_outputs = False

    def __init__(self, request: OllamaRequest) -> None:
        """Create the writer of the answer to ``request``."""
        super().__init__(request.model, stream=request.stream is not False)
        self.shorten = request.shorten
        self._request = request
        self._begun = time.perf_counter()
        self._load_s = 0.0

    def field_name(self, field: str, prompt: int) -> str:
        """Return the request's name for a field that an error of the runtime names."""
        return self._request.field_name(field)

    async def begin(self, runtime: LocalRuntime, stack: AsyncExitStack) -> GenerationOptions:
        """Note how long the model has taken to be loaded."""
        self._load_s = time.perf_counter() - self._begun
        return await super().begin(runtime, stack)

    def chunks(self, index: int, event: GenerationEvent) -> Iterator[dict[str, Any]]:
        """Yield the lines of a stream for one event."""
        if isinstance(event, TextDelta):
            yield self._line(event.text)
        elif isinstance(event, CallFinished):
            yield self._line("", (event.call,))
        elif isinstance(event, Finished):
            yield self._line("", **self._end(event.generation))

    def failure(self, error: ApiError) -> Mapping[str, Any]:
        """Return the line that ends a stream which failed."""
        return error.body(OLLAMA_ROUTES)

    def body(self, generations: Sequence[Generation]) -> dict[str, Any]:
        """Return an answer that is not streamed."""
        (generation,) = generations
        return self._line(generation.text, generation.tool_calls, **self._end(generation))

    def loaded(self) -> dict[str, Any]:
        """Return the answer to an empty prompt, for which the model is loaded only."""
        return self._line("", done=True, done_reason="load")

    async def encode(self, chunk: Mapping[str, Any]) -> str:
        """Return a line of a stream."""
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
        return {"model": self.model, "created_at": now(), **answer, "done": done, **fields}

    def _end(self, generation: Generation) -> Mapping[str, Any]:
        """Return the fields of the last line."""
        usage, timing = generation.usage, generation.timing
        return {
            "done": True,
            "done_reason": "length" if generation.finish_reason == "length" else "stop",
            "total_duration": nanoseconds(self._load_s + timing.total_s),
            "load_duration": nanoseconds(self._load_s),
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": nanoseconds(timing.time_to_first_token_s - timing.queued_s),
            "eval_count": usage.completion_tokens,
            "eval_duration": nanoseconds(timing.total_s - timing.time_to_first_token_s),
        }


def now() -> str:
    """Return the time in the form of RFC 3339."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def nanoseconds(seconds: float) -> int:
    """Return a duration as Ollama has it."""
    return int(seconds * 1_000_000_000)


router = APIRouter(route_class=OllamaRoute)


@router.post("/api/chat", summary="Generate an answer, in Ollama's form")
async def chat(body: OllamaChatRequest, request: Request) -> Response:
    """Answer messages, in lines of JSON unless ``stream`` is false."""
    return await _answer(body, request)


@router.post("/api/generate", summary="Answer a prompt, in Ollama's form")
async def generate(body: OllamaGenerateRequest, request: Request) -> Response:
    """Answer one prompt, in lines of JSON unless ``stream`` is false. An empty one loads the model."""
    if not body.prompt:
        return await _load(body, request)
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


async def _answer(body: OllamaRequest, request: Request) -> Response:
    model = _model(server_state_of(request), body.model)
    options = body.generation_options()
    options |= {
        "app": app_of(request),
        "priority": _priority(request),
        "session": header_session(request),
    }
    return await answer(request, model, OllamaWriter(body), [body.as_prompt()], options)


async def _load(body: OllamaRequest, request: Request) -> Response:
    """Load the model, and answer nothing."""
    priority = _priority(request)
    async with loaded(request, _model(server_state_of(request), body.model), priority):
        return JSONResponse(OllamaWriter(body).loaded(), headers=priority_headers(priority))


def _priority(request: Request) -> Priority:
    return header_priority(request) or Priority.REACTIVE


def _model(state: ServerState, name: str) -> PooledModel:
    found = state.pool.find(name)
    return state.model(without_tag(name)) if found is None else found


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
    state = server_state_of(request)
    named = state.embedding is not None and body.model == state.embedding.name
    model = state.embedding_model(body.model if named else without_tag(body.model or ""))
    body.take_priority(request)
    return await answer_embeddings(body, request, model, write)


def _embed_body(model: str, began: float, found: Embeddings, vectors: Iterator[Vector]) -> bytes:
    numbers = ",".join(compact_json(vector.tolist()) for vector in vectors)
    fields = {
        "model": model,
        "total_duration": nanoseconds(time.perf_counter() - began),
        "load_duration": 0,  # it is loaded when the server starts
        "prompt_eval_count": found.tokens,
    }
    return f'{{"embeddings":[{numbers}],{compact_json(fields)[1:]}'.encode()


def _embeddings_body(_: Embeddings, vectors: Iterator[Vector]) -> bytes:
    (vector,) = vectors
    return compact_json({"embedding": vector.tolist()}).encode()
