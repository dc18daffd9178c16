"""``POST /v1/embeddings``."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterator

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agentrt.concurrency.fair_threads import Cancellation

from ...pool.embedding_model import EmbeddingModel, Embeddings, Vector
from ...request.field_names import sender_names
from ..http.disconnect import cancel_on_disconnect
from ..http.priority_header import header_priority, priority_headers
from ..http.request_state import app_of, threads_of
from ..http.strict_json import StrictJsonRoute, compact_json
from .embeddings_request import EmbeddingRequest
from .server_state import server_state_of

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/v1/embeddings", summary="Embed texts")
async def embeddings(body: EmbeddingRequest, request: Request) -> Response:
    """OpenAI's embeddings, by the server's embedding model: vectors of length 1."""
    model = server_state_of(request).embedding_model(body.model)
    body.take_priority(header_priority(request))
    write = functools.partial(_body, model.name, body.encoding_format == "base64")
    with sender_names(body.field_name):
        return await answer_embeddings(body, request, model, write)


async def answer_embeddings(
    body: EmbeddingRequest,
    request: Request,
    model: EmbeddingModel,
    write: Callable[[Embeddings, Iterator[Vector]], bytes],
) -> Response:
    """Embed the texts of ``body`` by ``model``.

    ``write`` returns the JSON of an answer from its embeddings and their vectors, which it reads one by one:
    other threads run between two of them, as millions of numbers take a second to write.
    """
    app, texts, priority = app_of(request), body.texts(), body.runtime_priority
    with server_state_of(request).admission.admit(request, priority):
        embedding = model.aembed(texts, dimensions=body.dimensions, app=app, priority=priority)
        found = await cancel_on_disconnect(request, embedding)

        def write_all(cancellation: Cancellation) -> bytes:
            return write(found, _until_cancelled(found, cancellation))

        content = await cancel_on_disconnect(request, threads_of(request).run(app, write_all))
    return Response(content, media_type="application/json", headers=priority_headers(priority))


def _until_cancelled(found: Embeddings, cancellation: Cancellation) -> Iterator[Vector]:
    for vector in found.vectors:
        cancellation.check()
        yield vector


def _body(model: str, as_base64: bool, found: Embeddings, vectors: Iterator[Vector]) -> bytes:
    data = [
        compact_json({"object": "embedding", "index": index, "embedding": _encoded(vector, as_base64)})
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    fields = compact_json({"model": model, "usage": usage})[1:]
    return f'{{"object":"list","data":[{",".join(data)}],{fields}'.encode()


def _encoded(vector: Vector, as_base64: bool) -> str | list[float]:
    if as_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
