"""``/v1/models``, ``/health`` and ``/metrics``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from ..http.errors import ApiError
from ..http.tool_cache_route import CAPABILITY
from .server_state import ServerState, server_state_of

router = APIRouter()


def _describe_model(state: ServerState) -> dict[str, Any]:
    runtime = state.runtime
    return {
        "id": runtime.model_id,
        "object": "model",
        "created": state.started,
        "owned_by": "agentrt",
        "max_model_len": runtime.context_length,
        "capabilities": [] if runtime.call_format is None else [CAPABILITY],
    }


@router.get("/v1/models", summary="List the models")
async def models(request: Request) -> JSONResponse:
    """Return a list of the one model that is served."""
    return JSONResponse({"object": "list", "data": [_describe_model(server_state_of(request))]})


@router.get("/v1/models/{model:path}", summary="Describe a model")
async def model(model: str, request: Request) -> JSONResponse:
    """Return the model of this name; 404 if it is not served."""
    state = server_state_of(request)
    served = state.runtime.model_id
    if model != served:
        raise ApiError(
            404,
            f"the model {model!r} is not served here. Use {served!r}.",
            code="model_not_found",
            param="model",
        )
    return JSONResponse(_describe_model(state))


@router.get("/health", summary="Say whether the engine makes progress")
async def health(request: Request) -> JSONResponse:
    """200 while the engine makes progress or is idle; 503 if requests wait and it makes none."""
    state = server_state_of(request)
    engine = state.runtime.statistics().engine
    stalled = engine.seconds_since_progress > state.config.stalled_s
    return JSONResponse(
        {
            "status": "stalled" if stalled else "ok",
            "model": state.runtime.model_id,
            "running": engine.running,
            "waiting": engine.waiting,
            "sampled_tokens": engine.sampled_tokens,
            "seconds_since_progress": round(engine.seconds_since_progress, 3),
        },
        status_code=503 if stalled else 200,
    )


@router.get("/metrics", summary="Metrics for Prometheus")
async def metrics(request: Request) -> Response:
    """Return all metrics in Prometheus' text format."""
    return Response(server_state_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
