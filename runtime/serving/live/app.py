"""The live page by itself, beside a program that has runtimes of its own."""

from __future__ import annotations

from fastapi import FastAPI

from ..http.admission import Admission
from ..http.config import ListenConfig
from ..http.errors import install_error_handlers
from ..http.guard import Guard
from ..http.trace_context import application
from . import routes
from .feed import LiveFeed


def create_live_app(feed: LiveFeed, config: ListenConfig) -> FastAPI:
    """Return an ASGI application that serves the live page and the events of ``feed``, and nothing else."""
    app = application("agentrt live page", openapi_url=None)
    routes.install(app, feed)
    install_error_handlers(app)
    app.add_middleware(
        Guard,
        config=config,
        admission=Admission(config),
        public_paths=routes.PUBLIC_PATHS,
        owner_paths=routes.OWNER_PATHS,
    )
    return app
