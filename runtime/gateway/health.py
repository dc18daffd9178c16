"""``/health`` of a gateway."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ..http.request_state import is_owner
from .relay import relay_request

router = APIRouter()


@router.api_route("/health", methods=["GET", "HEAD"])
async def health(request: Request) -> Response:
    """Return the engine's answer to the owner, and to all others that the gateway runs.

    The engine's answer may tell what all apps do, and no request without a token reaches the engine.
    """
    return await relay_request(request) if is_owner(request) else JSONResponse({"status": "ok"})
