"""The trace that a request continues."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrt.otel.propagation import served


class TraceContext:
    """ASGI middleware: what a request does is a part of the trace that its ``traceparent`` names.

    It belongs behind the guard: strangers continue no trace.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Pass requests on to ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on in its trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with served(Headers(scope=scope)):
            await self._app(scope, receive, send)
