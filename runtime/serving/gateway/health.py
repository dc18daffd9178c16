"""``/health`` of a gateway."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ..http.request_state import is_owner
from .gateway_state import gateway_state_of
from .relay import relay_request

router = APIRouter()


@router.api_route("/health", methods=["GET", "HEAD"])
async def health(request: Request) -> Response:
    """Return the engine's answer to the owner, and to all others that the gateway runs.

    The engine's answer may tell what all apps do, and no request without a token reaches the engine. Where
    replicas share Redis, ``redis`` says whether it answered the last time: ``ok`` or ``failing``.
    """
    if is_owner(request):
        return await relay_request(request)
    redis = gateway_state_of(request).redis
    shared = {} if redis is None else {"redis": "ok" if redis.answers else "failing"}
    return JSONResponse({"status": "ok", **shared})
