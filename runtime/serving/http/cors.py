"""Cross-origin requests (CORS) of the web pages that a server allows."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrt.priority import PRIORITY_HEADER

from .config import ListenConfig
from .errors import ApiError
from .guard import check_host
from .streaming import ending_connection

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
            allow_private_network=True,
            expose_headers=_READABLE_HEADERS,
        )
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not self.is_allowed_origin(headers.get("origin", "")):
            await self.app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            try:
                check_host(self._config, headers)
                response = self.preflight_response(headers)
            except ApiError as refusal:
                response = refusal.response(scope["path"])
            await response(scope, receive, ending_connection(send))  # it has no token
        else:
            await self.simple_response(scope, receive, send, headers)
