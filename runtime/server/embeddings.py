"""``POST /v1/embeddings``."""

from __future__ import annotations

import base64

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agentrt.concurrency.fair_threads import Cancellation

from ..embedding.model import Embeddings, Vector
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
    state, app = server_state_of(request), app_of(request)
    model = state.embedding_model(body.model)
    body.take_priority(header_priority(request))
    texts, priority = body.texts(), body.runtime_priority
    with state.admission.admit(request, priority):
        embedding = model.aembed(texts, dimensions=body.dimensions, app=app, priority=priority)
        found = await cancel_on_disconnect(request, embedding)

        def write(cancellation: Cancellation) -> bytes:
            return _body(model.name, found, body.encoding_format == "base64", cancellation)

        # Millions of numbers take a second to write.
        content = await cancel_on_disconnect(request, threads_of(request).run(app, write))
    return Response(content, media_type="application/json", headers=priority_headers(priority))


def _body(model: str, found: Embeddings, as_base64: bool, cancellation: Cancellation) -> bytes:
    """Return the JSON of the answer, written vector by vector: other threads run between two of them."""
    data = []
    for index, vector in enumerate(found.vectors):
        cancellation.check()
        entry = {"object": "embedding", "index": index, "embedding": _encoded(vector, as_base64)}
        data.append(compact_json(entry))
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    fields = compact_json({"model": model, "usage": usage})[1:]
    return f'{{"object":"list","data":[{",".join(data)}],{fields}'.encode()


def _encoded(vector: Vector, as_base64: bool) -> str | list[float]:
    if as_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
