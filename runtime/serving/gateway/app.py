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
from .separation import Separation, StoredIds
from .shared_outputs import SharedOutputs
from .upstream import Upstream


def create_gateway(config: GatewayConfig) -> FastAPI:
    """Return the ASGI application of a gateway in front of the engine at ``config.upstream``.

    Raises:
        ConfigurationError: ``config.upstream`` or ``config.redis`` is not the address of such a server.
        MissingExtraError: ``config.redis`` is given, and redis-py is not installed.
    """
    upstream, threads = Upstream(config), FairThreads("agentrt-gateway")
    redis = None if config.redis is None else BoundedRedis(config.redis, config.redis_password)
    shared = None if redis is None else SharedOutputs(redis, config.tokens, threads)
    separation = None
    if config.tokens is not None and len(config.apps) > 1:
        separation = Separation(StoredIds(redis, config.tokens))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        greeting = None if redis is None else asyncio.create_task(redis.greet())
        yield
        await upstream.aclose()
        if redis is not None and greeting is not None:
            greeting.cancel()
            await redis.aclose()

    # It has no /openapi.json of its own: that path is the engine's.
    app = application("agentrt gateway", config, openapi_url=None, lifespan=lifespan)
    app.state.gateway = GatewayState(upstream, shared, separation)
    app.state.threads = threads
    app.include_router(chat.router)
    app.include_router(routes.router)
    app.mount("/", relay)
    return app
