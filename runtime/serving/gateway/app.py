"""The gateway's application: the routes it handles itself; the engine answers everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from agentrt.concurrency.fair_threads import FairThreads

from ..http.application import application
from . import chat, routes
from .bounded_redis import BoundedRedis
from .config import GatewayConfig
from .relay import GatewayState, relay
from .separation import Separation
from .shared_outputs import SharedOutputs
from .stored_ids import SharedIds
from .upstream import Upstream


def create_gateway(config: GatewayConfig) -> FastAPI:
    """Return the ASGI application of a gateway in front of the engine at ``config.upstream``.

    Raises:
        ConfigurationError: ``config.upstream`` is not the address of an HTTP server, or ``config.redis`` not
            that of a Redis server.
        MissingExtraError: ``config.redis`` is given, and redis-py is not installed.
    """
    upstream, threads = Upstream(config), FairThreads("agentrt-gateway")
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
    app = application("agentrt gateway", config, openapi_url=None, lifespan=lifespan)
    separation = Separation(shared_ids) if len(config.apps) > 1 else None
    app.state.gateway = GatewayState(upstream, shared, separation, redis)
    app.state.threads = threads
    app.include_router(chat.router)
    app.include_router(routes.router)
    app.mount("/", relay)
    return app
