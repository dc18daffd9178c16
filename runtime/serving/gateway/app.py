"""The gateway's application: the routes it handles itself; the engine answers everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from agentrt.concurrency.fair_threads import FairThreads

from ..http.admission import Admission
from ..http.cors import allow_origins
from ..http.errors import install_error_handlers
from ..http.guard import Guard
from ..http.open_responses import OpenResponses
from ..http.trace_context import TraceContext, application
from . import chat, health, models, submission
from .bounded_redis import BoundedRedis
from .config import GatewayConfig
from .gateway_state import GatewayState
from .relay import relay
from .separation import Separation
from .shared_ids import SharedIds
from .shared_outputs import SharedOutputs
from .upstream import Upstream


def create_gateway(config: GatewayConfig) -> FastAPI:
    """Return the ASGI application of a gateway in front of the engine at ``config.upstream``.

    Raises:
        ConfigurationError: ``config.upstream`` is not the address of an HTTP server, or ``config.redis`` not
            that of a Redis server.
        MissingExtraError: ``config.redis`` is given, and redis-py is not installed.
    """
    upstream, admission = Upstream(config), Admission(config)
    threads = FairThreads("agentrt-gateway")
    redis = shared = shared_ids = None
    if config.redis is not None:
        redis = BoundedRedis(config.redis, config.redis_password)
        shared = SharedOutputs(redis, config.tokens, threads)
        shared_ids = None if config.tokens is None else SharedIds(redis, config.tokens)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        greeting = None if redis is None else asyncio.create_task(redis.greet())
        yield
        if greeting is not None:
            await greeting
        await upstream.aclose()
        if shared is not None:
            await shared.aclose()

    # It has no /openapi.json of its own: that path is the engine's.
    app = application("agentrt gateway", openapi_url=None, lifespan=lifespan)
    separation = Separation(shared_ids) if len(config.apps) > 1 else None
    app.state.gateway = GatewayState(upstream, admission, shared, separation, redis)
    app.state.open_responses = OpenResponses()
    app.state.threads = threads
    for router in (chat.router, health.router, models.router, submission.router):
        app.include_router(router)
    app.mount("/", relay)
    install_error_handlers(app)
    app.add_middleware(TraceContext)
    app.add_middleware(Guard, config=config, admission=admission)
    allow_origins(app, config)
    return app
