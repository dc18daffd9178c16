"""``/v1/models`` before an engine without a tool cache: what it says, and that here is one."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic_core import from_json

from ..http.disconnect import cancel_on_disconnect
from ..http.tool_cache_route import CAPABILITY
from .relay import ask, gateway_of
from .upstream import sent_back, upstream_error

_MOST_BYTES = 8 * 2**20

router = APIRouter()


@router.get("/v1/models")
@router.get("/v1/models/{model:path}")
async def models(request: Request) -> Response:
    """The engine's answer, with this gateway's capability beside those of each model."""
    with gateway_of(request).admission.admit():
        return await cancel_on_disconnect(request, _described(request))


async def _described(request: Request) -> Response:
    response = await ask(request, b"", readable=True)
    try:
        body = await _read(response)
    except httpx.HTTPError as error:
        raise upstream_error(error) from error
    finally:
        await response.aclose()
    try:
        told = from_json(body)
    except ValueError:
        told = None
    described: Response
    if response.status_code == 200 and isinstance(told, dict):
        described = JSONResponse(_with_capability(told))
    else:
        described = Response(body, response.status_code, media_type=response.headers.get("content-type"))
    described.raw_headers += sent_back(response, with_body=False)
    return described


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > _MOST_BYTES:
            raise httpx.RemoteProtocolError(f"a list of models of more than {_MOST_BYTES} bytes")
    return bytes(body)


def _with_capability(told: dict[str, Any]) -> dict[str, Any]:
    """A model, or a list of them. Some engines list capabilities, some map them to whether they are there."""
    if isinstance(data := told.get("data"), list):
        return {**told, "data": [_with_capability(one) if isinstance(one, dict) else one for one in data]}
    there = told.get("capabilities")
    if isinstance(there, dict):
        return {**told, "capabilities": {**there, CAPABILITY: True}}
    others = there if isinstance(there, list) else []
    return {**told, "capabilities": [*(one for one in others if one != CAPABILITY), CAPABILITY]}
