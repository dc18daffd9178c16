"""The server's application: routes, error handlers and guard around one runtime or a pool of them."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentrt.concurrency.fair_threads import FairThreads
from agentrt.errors import ConfigurationError

from ...local.service import LocalRuntime
from ...pool.background.config import BackgroundConfig
from ...pool.embedding_model import EmbeddingModel
from ...pool.model_pool import ModelPool
from .. import tool_cache_route
from ..http.admission import Admission
from ..http.application import application
from ..live import routes as live
from ..live.feed import LiveFeed
from ..live.frames import Frames
from . import chat, completions, contexts, embeddings, messages, ollama, responses, status, tokens
from .background import BackgroundResponses
from .metrics import Metrics
from .server_state import ServerConfig, ServerState


def create_app(
    served: LocalRuntime | ModelPool,
    config: ServerConfig,
    embedding: EmbeddingModel | None = None,
    background: BackgroundConfig | None = None,
) -> FastAPI:
    """Return the ASGI application that serves a runtime, or several models. The caller closes ``served``.

    ``embedding`` makes embeddings; without it requests for them are a 404. ``background`` has the limits of
    background responses.

    Raises:
        ConfigurationError: another model has the name of ``embedding``.
    """
    pool = served if isinstance(served, ModelPool) else ModelPool.of(served)
    if embedding is not None and pool.find(embedding.name) is not None:
        raise ConfigurationError(
            f"the embedding model and another one have the name {embedding.name!r}. Give the other one a "
            "name of its own (--served-model-name)."
        )
    # No documentation pages: they would load scripts from other sites. The OpenAPI document is /openapi.json.
    app = application(
        "agentrt",
        config,
        public_paths=live.PUBLIC_PATHS,
        owner_paths=live.OWNER_PATHS,
        docs_url=None,
        redoc_url=None,
        lifespan=_running,
    )
    metrics = Metrics(pool)
    app.state.server = ServerState(pool, config, metrics, embedding)
    app.state.background = BackgroundResponses(app.state.server, background or BackgroundConfig())
    app.state.threads = FairThreads("agentrt-serve")
    live.install(app, LiveFeed(lambda: Frames(lambda: pool.models, queue=app.state.background.queue)))
    modules = chat, completions, contexts, embeddings, responses, messages, tokens
    for module in (*modules, tool_cache_route, status):
        app.include_router(module.router)
    app.add_middleware(_ResponseCounter, metrics=metrics)
    return app


@asynccontextmanager
async def _running(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.server.pool.running(), app.state.background:
        yield


def add_ollama(app: FastAPI, config: ServerConfig, listener: socket.socket) -> None:
    """Let ``app`` of :func:`create_app` answer in Ollama's form, and in no other, at ``listener``.

    That is another listener of its server, on TCP, with a port of its own. ``config`` is that of ``app`` with
    its address; models and limits are shared.
    """
    other = application("agentrt for Ollama's clients", config, docs_url=None, redoc_url=None)
    for shared in ("server", "threads"):
        setattr(other.state, shared, getattr(app.state, shared))
    admission: Admission = other.state.admission
    admission.requests, admission.bytes = app.state.admission.requests, app.state.admission.bytes
    other.include_router(ollama.router)
    other.add_middleware(_ResponseCounter, metrics=app.state.server.metrics)
    app.add_middleware(_AtPort, port=listener.getsockname()[1], other=other)


class _AtPort:
    """ASGI middleware: requests that arrived at a port are another application's."""

    def __init__(self, app: ASGIApp, port: int, other: ASGIApp) -> None:
        self._app = app
        self._port = port
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = scope.get("server")  # of a Unix socket its path, and no port
        app = self._other if server is not None and server[1] == self._port else self._app
        await app(scope, receive, send)


class _ResponseCounter:
    """ASGI middleware that counts responses by route and status, the guard's included."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The route's template, not the requested path: each path would become a counter of its own.
                path = getattr(scope.get("route"), "path", "other")
                self._metrics.responses.labels(path, message["status"]).inc()
            await send(message)

        await self._app(scope, receive, send_counted if scope["type"] == "http" else send)
