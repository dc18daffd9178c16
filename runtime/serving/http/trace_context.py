"""The trace that a request continues, and its span; applications without other telemetry."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentrt.otel.http_spans import http_server_span
from agentrt.otel.propagation import served

_POLLED: Final = frozenset(("/health", "/metrics"))
"""Supervisors and Prometheus ask for them all day long."""
_NO_PATHS: Final[frozenset[str]] = frozenset()
_NO_TELEMETRY: Final[Any] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


class TraceContext:
    """ASGI middleware: a request is a span, which is a part of the trace that its ``traceparent`` names.

    It belongs behind the guard: strangers continue no trace, and make no span.
    """

    def __init__(self, app: ASGIApp, untraced: frozenset[str] = _NO_PATHS) -> None:
        """Pass requests on to ``app``. Those for ``untraced`` paths, health and metrics make no span."""
        self._app = app
        self._untraced = untraced | _POLLED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on in its trace."""
        if scope["type"] != "http" or scope["path"] in self._untraced:
            await self._app(scope, receive, send)
            return
        with served(Headers(scope=scope)), http_server_span(scope["method"]) as answered:

            async def noting(message: Message) -> None:
                if answered is not None and message["type"] == "http.response.start":
                    answered(message["status"], getattr(scope.get("route"), "path", None))
                await send(message)

            await self._app(scope, receive, send if answered is None else noting)


def application(title: str, **options: Any) -> FastAPI:
    """Return an application without FastAPI's own telemetry; ``options`` are FastAPI's.

    From version 0.165 FastAPI makes a span of every request, strangers' included, with path and query. Ours
    are those of :class:`TraceContext`.
    """
    return FastAPI(title=title, telemetry=_NO_TELEMETRY, **options)
