"""JSON, as it is read and as it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from .errors import ApiError


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise ApiError(
                400, f"the body is not JSON ({error}). Send one JSON value in UTF-8.", code="invalid_json"
            ) from None


class StrictRoute(APIRoute):
    """Reads its body as strict JSON: UTF-8, no NaN, no half characters, not nested without end."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, on another kind of request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


def compact(value: Any) -> str:
    """``value`` as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
