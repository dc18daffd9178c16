"""Routes that read a body as JSON whatever its content type, as Ollama does."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.types import Scope

from ...http.strict_json import StrictJsonRoute

_CONTENT_TYPE: Final = b"content-type"


class OllamaRoute(StrictJsonRoute):
    """A route of strict JSON for which no content type is needed.

    ``curl -d`` and LiteLLM's ``ollama/`` provider send JSON as a form or without a type. A web page can send
    such a body without a preflight; the guard has refused it by its ``Origin`` before a route is found.
    """

    def json_scope(self, request: Request) -> Scope:
        """Return the scope of ``request`` with the content type of JSON, as FastAPI needs it."""
        others = [(name, value) for name, value in request.scope["headers"] if name != _CONTENT_TYPE]
        return {**request.scope, "headers": [*others, (_CONTENT_TYPE, b"application/json")]}
