"""``POST /v1/embeddings``."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from agentrt.concurrency.fair_threads import Cancellation
from agentrt.errors import InvalidRequestError

from ...pool.embedding_model import EmbeddingModel, Embeddings, Vector
from ...pool.responses.common_request import PrioritizedRequest
from ...request.field_names import renamed, sender_names
from ..http.admission import admit
from ..http.request_state import app_of, header_priority, priority_headers, threads_of
from ..http.streaming import cancel_on_disconnect
from ..http.strict_json import StrictJsonRoute, compact_json
from .server_state import server_state_of

_MOST_TEXTS: Final = 2048
"""As for OpenAI."""


router = APIRouter(route_class=StrictJsonRoute)


class EmbeddingRequest(PrioritizedRequest):
    """OpenAI's fields."""

    input: str | list[Any]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(default=None, ge=1)

    def texts(self) -> list[str]:
        """Return the texts to be embedded.

        Raises:
            InvalidRequestError: there are none or too many, or one is empty or no text.
        """
        texts = self.input if isinstance(self.input, list) else [self.input]
        if not 0 < len(texts) <= _MOST_TEXTS:
            raise InvalidRequestError("input", f"has {len(texts)} texts. Send 1 to {_MOST_TEXTS}.")
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidRequestError(
                    f"input[{index}]",
                    "is no text. Token ids would be those of another model's tokenizer: send texts (in "
                    "LangChain, check_embedding_ctx_length=False).",
                )
            if not text:
                raise InvalidRequestError(f"input[{index}]", "is empty. Leave it out.")
        return texts

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of its texts names."""
        return renamed(field, {"input[0]": "input"} if isinstance(self.input, str) else {})


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
    with admit(request, priority):
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
