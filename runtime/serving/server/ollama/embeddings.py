"""``/api/embed``, and the older ``/api/embeddings``."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ....pool.embedding_model import Embeddings, Vector
from ....request.field_names import renamed, sender_names
from ...http.priority_header import header_priority
from ...http.strict_json import compact_json
from ..embeddings import answer_embeddings
from ..embeddings_request import EmbeddingRequest
from ..server_state import server_state_of
from .answers import nanoseconds
from .json_route import OllamaRoute
from .requests import OllamaEmbeddingsRequest, OllamaEmbedRequest, without_tag

router = APIRouter(route_class=OllamaRoute)


@router.post("/api/embed", summary="Embed texts, in Ollama's form")
async def embed(body: OllamaEmbedRequest, request: Request) -> Response:
    """Return the vectors of one or several texts, of length 1."""
    write = functools.partial(_embed_body, body.model, time.perf_counter())
    with sender_names(body.field_name):
        return await _answer(body, request, write)


@router.post("/api/embeddings", summary="Embed a text, in Ollama's older form")
async def embeddings(body: OllamaEmbeddingsRequest, request: Request) -> Response:
    """Return the vector of a text, of length 1."""
    texts = EmbeddingRequest(model=body.model, input=body.prompt)
    with sender_names(lambda field: renamed(texts.field_name(field), {"input": "prompt"})):
        return await _answer(texts, request, _embeddings_body)


async def _answer(
    body: EmbeddingRequest, request: Request, write: Callable[[Embeddings, Iterator[Vector]], bytes]
) -> Response:
    state = server_state_of(request)
    named = state.embedding is not None and body.model == state.embedding.name
    model = state.embedding_model(body.model if named else without_tag(body.model or ""))
    body.take_priority(header_priority(request))
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
