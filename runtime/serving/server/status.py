"""``/v1/models``, in OpenAI's form and in Anthropic's; ``/health`` and ``/metrics``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from ...pool.embedding_model import EmbeddingModel
from ...pool.pooled_model import ModelStatus, PooledModel
from ..http.errors import MESSAGES_ROUTES, ApiError
from ..http.request_state import is_owner
from ..tool_cache_route import CAPABILITY
from .server_state import server_state_of

_EMBEDDINGS: Final = "embeddings"
"""Listed in the ``capabilities`` of the model that makes them."""

_TOOL_SECONDS: Final = "tool_seconds"
"""Listed where a request can say for how many seconds its tools usually run."""

_COUNTED: Final = ("running", "waiting", "sampled_tokens")

router = APIRouter()


class _NotServed(ApiError):
    """A 404 in the form that Anthropic's clients read."""

    def body(self, path: str = "") -> dict[str, Any]:
        return super().body(MESSAGES_ROUTES[0])


def _is_anthropics(request: Request) -> bool:
    """Whether an Anthropic client asks: all of them send their version of the interface."""
    return "anthropic-version" in request.headers


def _describe_to_anthropics(model: PooledModel, name: str, created: int) -> dict[str, Any]:
    """Return what an Anthropic client is told of a model under one of its names."""
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": datetime.fromtimestamp(created, UTC).isoformat(),
        "lifecycle": "active",
        "max_input_tokens": model.context_length,
        "capabilities": _describe(model, name, created)["capabilities"],
    }


def _describe(model: PooledModel | EmbeddingModel, name: str, created: int) -> dict[str, Any]:
    """Return what a client is told of a model under one of its names."""
    if isinstance(model, EmbeddingModel):
        length: int | None = model.max_tokens
        status, capabilities = ModelStatus.LOADED, [_EMBEDDINGS]
    else:
        status, length = model.status, model.context_length
        capabilities = [CAPABILITY, _TOOL_SECONDS] if model.takes_tools else []
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "agentrt",
        "status": status.value,
        "root": model.name,
        "max_model_len": length,
        "capabilities": capabilities,
    }


@router.get("/v1/models", summary="List the models")
async def models(request: Request) -> JSONResponse:
    """Return all names of all models, loaded or not, in the order in which they were given.

    To an Anthropic client, which sends ``anthropic-version``, these are the models that answer messages.
    """
    state = server_state_of(request)
    named = [(model, name) for model in state.pool.models for name in model.names]
    if _is_anthropics(request):
        listed = [_describe_to_anthropics(model, name, state.started) for model, name in named]
        page = {"first_id": named[0][1], "last_id": named[-1][1], "has_more": False}
        return JSONResponse({"data": listed, **page})
    listed = [_describe(model, name, state.started) for model, name in named]
    if state.embedding is not None:
        listed.append(_describe(state.embedding, state.embedding.name, state.started))
    return JSONResponse({"object": "list", "data": listed})


@router.get("/v1/models/{model:path}", summary="Describe a model")
async def model(model: str, request: Request) -> JSONResponse:
    """Return the model of this name; 404 if it is not served."""
    state = server_state_of(request)
    if _is_anthropics(request):
        try:
            return JSONResponse(_describe_to_anthropics(state.model(model), model, state.started))
        except ApiError as error:
            raise _NotServed(error.status_code, error.detail) from None
    embedding = state.embedding
    found = embedding if embedding is not None and model == embedding.name else state.model(model)
    return JSONResponse(_describe(found, model, state.started))


@router.get("/health", summary="Say whether the engines make progress")
async def health(request: Request) -> JSONResponse:
    """200 while every engine makes progress or is idle; 503 if requests wait for one and it makes none.

    The counts, which tell what all apps do, are for the server's owner only.
    """
    state = server_state_of(request)
    described = [_health_of(model) for model in state.pool.models]
    stalled = any(each["seconds_since_progress"] > state.config.stalled_s for each in described)
    body: dict[str, Any] = {"status": "stalled" if stalled else "ok"}
    if is_owner(request):
        body |= {name: sum(each[name] for each in described) for name in _COUNTED}
        body["seconds_since_progress"] = max(each["seconds_since_progress"] for each in described)
        body["models"] = described
    return JSONResponse(body, status_code=503 if stalled else 200)


def _health_of(model: PooledModel) -> dict[str, Any]:
    engine = None if model.runtime is None else model.runtime.statistics().engine
    return {
        "id": model.name,
        "status": model.status.value,
        "running": 0 if engine is None else engine.running,
        "waiting": 0 if engine is None else engine.waiting,
        "sampled_tokens": int(model.count("sampled_tokens")),
        "seconds_since_progress": 0.0 if engine is None else round(engine.seconds_since_progress, 3),
    }


@router.get("/metrics", summary="Metrics for Prometheus")
async def metrics(request: Request) -> Response:
    """Return all metrics in Prometheus' text format, to the server's owner only."""
    return Response(server_state_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
