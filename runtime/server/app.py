"""The application: routes, errors and guards around one runtime."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..http import tool_cache_route as tool_cache
from ..http.admission import Admission
from ..http.errors import install_error_handlers
from ..http.guard import Guard
from ..http.open_responses import OpenResponses
from ..service import LocalRuntime
from . import chat, responses, status
from .config import ServerConfig
from .metrics import Metrics
from .state import Service


def create_app(runtime: LocalRuntime, config: ServerConfig) -> FastAPI:
    """The ASGI application that serves ``runtime``, which stays its owner's to close."""
    metrics = Metrics(runtime)
    # No page that would load scripts from elsewhere; the description itself is at /openapi.json.
    app = FastAPI(title="agentrt", docs_url=None, redoc_url=None)
    app.state.service = Service(runtime, config, Admission(config.max_requests), metrics)
    app.state.open_responses = OpenResponses()
    for router in (chat.router, responses.router, tool_cache.router, status.router):
        app.include_router(router)
    install_error_handlers(app)
    app.add_middleware(Guard, config=config)
    app.add_middleware(_Counting, metrics=metrics)
    return app


class _Counting:
    """Counts responses by route, also those that a guard gives."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The route's own path: what was asked for would be a new counter each time.
                path = getattr(scope.get("route"), "path", "other")
                self._metrics.responses.labels(path, message["status"]).inc()
            await send(message)

        await self._app(scope, receive, counting if scope["type"] == "http" else send)
