"""The gateway's application: what it takes part in, and the engine for everything else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ..http import tool_cache_route as tool_cache
from ..http.admission import Admission
from ..http.errors import install_error_handlers
from ..http.guard import Guard
from ..http.open_responses import OpenResponses
from . import chat, models
from .config import GatewayConfig
from .relay import Gateway, relay
from .upstream import Upstream


def create_gateway(config: GatewayConfig) -> FastAPI:
    """The ASGI application before the engine that ``config`` names.

    Raises:
        ConfigurationError: its address is none.
    """
    upstream = Upstream(config)

    @asynccontextmanager
    async def closing(_: FastAPI) -> AsyncGenerator[None, None]:
        yield
        await upstream.aclose()

    # No description of its own: /openapi.json is the engine's.
    app = FastAPI(title="agentrt gateway", openapi_url=None, lifespan=closing)
    app.state.gateway = Gateway(upstream, Admission(config.max_requests))
    app.state.open_responses = OpenResponses()
    for router in (chat.router, models.router, tool_cache.router):
        app.include_router(router)
    app.mount("/", relay)
    install_error_handlers(app)
    app.add_middleware(Guard, config=config)
    return app
