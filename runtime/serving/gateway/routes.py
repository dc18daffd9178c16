"""What a gateway answers itself: health, the list of models, and tool outputs."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from pydantic_core import to_json

from .. import tool_cache_route
from ..http.errors import ApiError
from ..http.request_state import app_of, is_owner
from ..http.streaming import cancel_on_disconnect
from ..http.strict_json import StrictJsonRoute
from ..tool_cache_route import CAPABILITY, MAX_ENTRIES, ToolOutputEntry
from .relay import admitted, gateway_state_of, relay_request, send_to_engine
from .sse import parse_engine_json
from .upstream import client_headers, is_encoded, trace_failure, upstream_error

_MAX_BYTES = 8 * 2**20

router = APIRouter(route_class=StrictJsonRoute)


@router.api_route("/health", methods=["GET", "HEAD"])
async def health(request: Request) -> Response:
    """Return the engine's answer to the owner, and to all others that the gateway runs.

    The engine's answer may tell what all apps do, and no request without a token reaches the engine. Where
    replicas share Redis, ``redis`` says whether it answered the last time: ``ok`` or ``failing``.
    """
    if is_owner(request):
        return await relay_request(request)
    shared = gateway_state_of(request).shared
    redis = {} if shared is None else {"redis": "ok" if shared.answers else "failing"}
    return JSONResponse({"status": "ok", **redis})


@router.get("/v1/models")
@router.get("/v1/models/{model:path}")
async def models(request: Request) -> Response:
    """Return the engine's answer, with ``cache-tool-output`` among the capabilities of each model.

    A compressed answer is returned unchanged.
    """
    with admitted(request):
        return await cancel_on_disconnect(request, _models_response(request))


async def _models_response(request: Request) -> Response:
    upstream = await send_to_engine(request, b"", readable=True)
    try:
        body = await _read(upstream)
    except httpx.HTTPError as error:
        trace_failure(upstream, error)
        raise upstream_error(error) from error
    finally:
        await upstream.aclose()
    if upstream.status_code == 200 and not is_encoded(upstream):
        with suppress(ValueError):
            if isinstance(listing := parse_engine_json(body), dict):
                body = to_json(_with_capability(listing))
    response = Response(body, upstream.status_code)
    response.raw_headers += client_headers(upstream, with_length=False)
    return response


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > _MAX_BYTES:
            raise httpx.RemoteProtocolError(f"a list of models of more than {_MAX_BYTES} bytes")
    return bytes(body)


def _with_capability(listing: dict[str, Any]) -> dict[str, Any]:
    """Add the capability to a model or to each of a list.

    Some engines give capabilities as a list of names, others as a map of names to booleans.
    """
    if isinstance(models := listing.get("data"), list):
        described = [_with_capability(model) if isinstance(model, dict) else model for model in models]
        return {**listing, "data": described}
    capabilities = listing.get("capabilities")
    if isinstance(capabilities, dict):
        return {**listing, "capabilities": {**capabilities, CAPABILITY: True}}
    others = capabilities if isinstance(capabilities, list) else []
    return {**listing, "capabilities": [*(name for name in others if name != CAPABILITY), CAPABILITY]}


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
        if error.status_code == 404 and all(entry.is_predicted for entry in body):
            # The engine takes them for a stream that is relayed as it is; the gateway drafts nothing.
            return JSONResponse({"cached": 0})
        if shared is None or error.status_code != 404:
            raise
        submission = shared.submit(app_of(request), response_id, body)
        cached = await cancel_on_disconnect(request, submission)
        if cached is None:
            raise
        return JSONResponse({"cached": cached})
