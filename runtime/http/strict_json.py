"""Strict parsing of JSON bodies, and compact JSON."""

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


class StrictJsonRoute(APIRoute):
    """A route whose body is strict JSON: UTF-8, no NaN, no lone surrogates, limited nesting."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, which parses the body strictly."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly


def compact_json(value: Any) -> str:
    """Return ``value`` as JSON in one line, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
