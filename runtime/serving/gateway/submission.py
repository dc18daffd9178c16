"""``POST /v1/cache-tool-output/{response_id}`` of a gateway, also for responses of its replicas."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from .. import tool_cache_route
from ..http.disconnect import cancel_on_disconnect
from ..http.errors import ApiError
from ..http.request_state import app_of
from ..http.strict_json import StrictJsonRoute
from ..tool_cache_route import MAX_ENTRIES, ToolOutputEntry
from .gateway_state import gateway_state_of

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/v1/cache-tool-output/{response_id}")
@router.post("/cache-tool-output/{response_id}")
async def cache_tool_output(
    response_id: str,
    body: Annotated[list[ToolOutputEntry], Field(max_length=MAX_ENTRIES)],
    request: Request,
) -> JSONResponse:
    """Store tool outputs as the server does, or for the replica that streams the response."""
    try:
        return await tool_cache_route.cache_tool_output(response_id, body, request)
    except ApiError as error:
        shared = gateway_state_of(request).shared
        if shared is None or error.status_code != 404:
            raise
        submission = shared.submit(app_of(request), response_id, body)
        cached = await cancel_on_disconnect(request, submission)
        if cached is None:
            raise
        return JSONResponse({"cached": cached})
