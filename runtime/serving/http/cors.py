"""Cross-origin requests (CORS) of the web pages that a server allows."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrt.priority import PRIORITY_HEADER

from .config import ListenConfig
from .errors import ApiError
from .guard import check_host
from .streaming import ending_connection

_METHOD_HEADER: Final = "access-control-request-method"
_METHODS: Final = ("DELETE", "GET", "POST")
_READABLE_HEADERS: Final = (PRIORITY_HEADER, "retry-after", "x-should-retry")


def allow_origins(app: FastAPI, config: ListenConfig) -> None:
    """Let the web pages of ``config.cors_origins`` send requests to ``app`` and read the answers.

    Add it after the guard, so that pages can read its refusals, too. Browsers send no credentials of their
    own, such as cookies: pages send a token. Without origins nothing changes.
    """
    if config.cors_origins:
        app.add_middleware(_AllowedPages, config=config)


class _AllowedPages(CORSMiddleware):
    """Starlette's CORS for the origins that are allowed; requests of others are left to the guard.

    Starlette would name the methods and the readable headers to pages of any origin, and answer preflights
    whatever their ``Host``.
    """

    def __init__(self, app: ASGIApp, config: ListenConfig) -> None:
        super().__init__(
            app,
            allow_origins=sorted(config.cors_origins),
            allow_methods=_METHODS,
            allow_headers=("*",),  # clients send many of their own
            allow_credentials=False,
            allow_private_network=True,
            expose_headers=_READABLE_HEADERS,
        )
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and not self.is_allowed_origin(origin):
            await self.app(scope, receive, send)
        elif origin is not None and scope["method"] == "OPTIONS" and _METHOD_HEADER in headers:
            response = self._preflight_response(scope["path"], headers)
            await response(scope, receive, ending_connection(send))  # it has no token
        else:
            await self.simple_response(scope, receive, send, headers)

    def _preflight_response(self, path: str, headers: Headers) -> Response:
        try:
            check_host(self._config, headers)
            if (method := headers[_METHOD_HEADER]) not in _METHODS:
                raise ApiError(
                    400,
                    f"web pages may not send {method} requests. Use {', '.join(_METHODS)}.",
                    code="invalid_method",
                )
        except ApiError as refusal:
            return refusal.response(path)
        return self.preflight_response(headers)
