"""Applications: routes behind the guard, errors in their form, CORS, and a span for each request."""

from __future__ import annotations

import asyncio
from http.client import SERVICE_UNAVAILABLE
from typing import Any, Final

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentrt.otel.http_spans import http_server_span
from agentrt.otel.propagation import served
from agentrt.priority import PRIORITY_HEADER

from .admission import Admission
from .config import ListenConfig
from .errors import MESSAGES_ROUTES, ApiError, install_error_handlers
from .guard import Guard, check_host
from .open_responses import OpenResponses
from .streaming import ending_connection
from .strict_json import compact_json

_POLLED: Final = frozenset(("/health", "/metrics"))
"""Supervisors and Prometheus ask for them all day long."""
_NO_PATHS: Final[frozenset[str]] = frozenset()
_NO_TELEMETRY: Final[Any] = dict.fromkeys(
    ("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False
)


class _TraceContext:
    """ASGI middleware: a request is a span, which is a part of the trace that its ``traceparent`` names.

    It belongs behind the guard: strangers continue no trace, and make no span. Health and metrics make none.
    """

    def __init__(self, app: ASGIApp, untraced: frozenset[str]) -> None:
        self._app = app
        self._untraced = untraced | _POLLED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._untraced:
            await self._app(scope, receive, send)
            return
        with served(Headers(scope=scope)), http_server_span(scope["method"]) as answered:

            async def noting(message: Message) -> None:
                if answered is not None and message["type"] == "http.response.start":
                    answered(message["status"], getattr(scope.get("route"), "path", None))
                await send(message)

            await self._app(scope, receive, send if answered is None else noting)


class AnswerInterrupted:
    """ASGI middleware: a request whose task is cancelled is answered with a 503.

    If its response has begun and is a stream of events or of lines of JSON, the error is the last of these.
    The tasks of requests are cancelled only by a server that stops.
    """

    def __init__(self, app: ASGIApp) -> None:
        """``app`` answers the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; after a cancellation send the error and return normally."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head: Message | None = None
        sent_last = b"\n"
        complete = False

        async def send_noted(message: Message) -> None:
            nonlocal head, sent_last, complete
            if message["type"] == "http.response.start":
                head = message
            else:
                sent_last = message.get("body", b"") or sent_last
                complete = not message.get("more_body", False)
            await send(message)

        interrupted = False
        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            interrupted = not complete
        if not interrupted:
            return
        error = ApiError(
            SERVICE_UNAVAILABLE,
            "the server has stopped before the answer was complete. Try again when it has restarted.",
            kind="server_error",
            code="server_stopping",
            headers={"connection": "close"},
        )
        if head is None:
            await error.response(scope["path"])(scope, receive, send)
            return
        content_type = Headers(raw=list(head["headers"])).get("content-type", "")
        text = compact_json(error.body(scope["path"]))
        if content_type.startswith("text/event-stream"):
            # The blank line ends an event of which only a part has been sent.
            name = "event: error\n" if scope["path"] in MESSAGES_ROUTES else ""
            await send({"type": "http.response.body", "body": f"\n\n{name}data: {text}\n\n".encode()})
        elif content_type.startswith("application/x-ndjson"):
            line_feed = "" if sent_last.endswith(b"\n") else "\n"
            await send({"type": "http.response.body", "body": f"{line_feed}{text}\n".encode()})


class _AllowedPages(CORSMiddleware):
    """Starlette's CORS for the origins that are allowed; requests of others are left to the guard.

    Starlette would name the methods and the readable headers to pages of any origin, and answer preflights
    whatever their ``Host``.
    """

    def __init__(self, app: ASGIApp, config: ListenConfig) -> None:
        super().__init__(
            app,
            allow_origins=sorted(config.cors_origins),
            allow_methods=("DELETE", "GET", "POST"),
            allow_headers=("*",),  # clients send many of their own
            allow_private_network=True,
            expose_headers=(PRIORITY_HEADER, "retry-after", "x-should-retry"),
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


def application(
    title: str,
    config: ListenConfig,
    *,
    public_paths: frozenset[str] = _NO_PATHS,
    owner_paths: frozenset[str] = _NO_PATHS,
    **options: Any,
) -> FastAPI:
    """Return an application without routes, behind a guard; ``options`` are FastAPI's.

    Its state has ``admission``. ``public_paths`` and ``owner_paths`` are those of :class:`Guard`.

    From version 0.165 FastAPI makes a span of every request, strangers' included, with path and query. Ours
    are made behind the guard.
    """
    app = FastAPI(title=title, telemetry=_NO_TELEMETRY, **options)
    app.state.admission = Admission(config)
    app.state.open_responses = OpenResponses()
    install_error_handlers(app)
    app.add_middleware(_TraceContext, untraced=public_paths | owner_paths)
    app.add_middleware(
        Guard,
        config=config,
        admission=app.state.admission,
        public_paths=public_paths,
        owner_paths=owner_paths,
    )
    if config.cors_origins:  # around the guard, so that pages can read its refusals, too
        app.add_middleware(_AllowedPages, config=config)
    return app
