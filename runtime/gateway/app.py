"""The gateway's application: the routes it handles itself; the engine answers everything else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from agentrt.concurrency.fair_threads import FairThreads

from ..http import tool_cache_route
from ..http.admission import Admission
from ..http.cors import allow_origins
from ..http.errors import install_error_handlers
from ..http.guard import Guard
from ..http.open_responses import OpenResponses
from ..http.trace_context import TraceContext
from . import chat, health, models
from .config import GatewayConfig
from .gateway_state import GatewayState
from .relay import relay
from .upstream import Upstream


def create_gateway(config: GatewayConfig) -> FastAPI:
    """Return the ASGI application of a gateway in front of the engine at ``config.upstream``.

    Raises:
        ConfigurationError: ``config.upstream`` is not the address of an HTTP server.
    """
    upstream, admission = Upstream(config), Admission(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        yield
        await upstream.aclose()

    # It has no /openapi.json of its own: that path is the engine's.
    app = FastAPI(title="agentrt gateway", openapi_url=None, lifespan=lifespan)
    app.state.gateway = GatewayState(upstream, admission)
    app.state.open_responses = OpenResponses()
    app.state.threads = FairThreads("agentrt-gateway")
    for router in (chat.router, health.router, models.router, tool_cache_route.router):
        app.include_router(router)
    app.mount("/", relay)
    install_error_handlers(app)
    app.add_middleware(TraceContext)
    app.add_middleware(Guard, config=config, admission=admission)
    allow_origins(app, config)
    return app
