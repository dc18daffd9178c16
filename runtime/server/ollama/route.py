"""Routes whose errors have the form of Ollama's."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from agentrt.errors import AgentRTError

from ...http.errors import to_api_error
from ...http.strict_json import StrictJsonRoute


class OllamaRoute(StrictJsonRoute):
    """A route of strict JSON that answers an error with ``{"error": text}``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which also writes the errors."""
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except (AgentRTError, HTTPException, RequestValidationError) as error:
                known = to_api_error(error)
                return JSONResponse({"error": known.detail}, known.status_code, known.headers)

        return handle_errors
