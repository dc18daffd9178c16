"""``/v1/models``, ``/health`` and ``/metrics``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from ..http.errors import ApiError
from ..http.tool_cache_route import CAPABILITY
from .state import Service, service_of

router = APIRouter()


def _model(service: Service) -> dict[str, Any]:
    runtime = service.runtime
    return {
        "id": runtime.model_id,
        "object": "model",
        "created": service.started,
        "owned_by": "agentrt",
        "max_model_len": runtime.context_length,
        "capabilities": [] if runtime.call_format is None else [CAPABILITY],
    }


@router.get("/v1/models", summary="List the models")
async def models(request: Request) -> JSONResponse:
    """The one model that is served."""
    return JSONResponse({"object": "list", "data": [_model(service_of(request))]})


@router.get("/v1/models/{model:path}", summary="Describe a model")
async def model(model: str, request: Request) -> JSONResponse:
    """The model of this name."""
    service = service_of(request)
    if model != service.runtime.model_id:
        raise ApiError(404, f"the model {model!r} is not served here.", code="model_not_found", param="model")
    return JSONResponse(_model(service))


@router.get("/health", summary="Say whether answers are being written")
async def health(request: Request) -> JSONResponse:
    """200 while the engine makes progress or has nothing to do; 503 if work waits and none is done."""
    service = service_of(request)
    engine = service.runtime.statistics().engine
    stalled = engine.seconds_since_progress > service.config.stalled_s
    return JSONResponse(
        {
            "status": "stalled" if stalled else "ok",
            "model": service.runtime.model_id,
            "running": engine.running,
            "waiting": engine.waiting,
            "sampled_tokens": engine.sampled_tokens,
            "seconds_since_progress": round(engine.seconds_since_progress, 3),
        },
        status_code=503 if stalled else 200,
    )


@router.get("/metrics", summary="Counters for Prometheus")
async def metrics(request: Request) -> Response:
    """Prometheus' text format."""
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
