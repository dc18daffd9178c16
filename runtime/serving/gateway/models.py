"""``/v1/models`` in front of an engine: its answer, with the gateway's capability added to each model."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from ..http.disconnect import cancel_on_disconnect
from ..tool_cache_route import CAPABILITY
from .gateway_state import gateway_state_of
from .headers import client_headers
from .relay import send_to_engine
from .sse import parse_engine_json
from .upstream import is_encoded, trace_failure, upstream_error

_MAX_BYTES = 8 * 2**20

router = APIRouter()


@router.get("/v1/models")
@router.get("/v1/models/{model:path}")
async def models(request: Request) -> Response:
    """Return the engine's answer, with ``cache-tool-output`` among the capabilities of each model.

    A compressed answer is returned unchanged.
    """
    with gateway_state_of(request).admit(request):
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
    listing = _listing(upstream, body)
    if listing is not None:
        response = Response(to_json(_with_capability(listing)), media_type="application/json")
    else:
        response = Response(body, upstream.status_code, media_type=upstream.headers.get("content-type"))
        if is_encoded(upstream):
            response.headers["content-encoding"] = upstream.headers["content-encoding"]
    response.raw_headers += client_headers(upstream, with_body=False)
    return response


def _listing(upstream: httpx.Response, body: bytes) -> dict[str, Any] | None:
    """Return the models that ``body`` describes; None if it is an error or cannot be read."""
    if upstream.status_code != 200 or is_encoded(upstream):
        return None
    try:
        listing = parse_engine_json(body)
    except ValueError:
        return None
    return listing if isinstance(listing, dict) else None


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
