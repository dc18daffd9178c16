from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from agentrt.runtime.serving.http.application import application
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.connection import Connection
from agentrt.runtime.serving.http.request_state import app_of, is_owner
from tests.runtime.serving.http.serving import Running, Start, listening

LARGE = 4 * 2**20
"""Bytes of the answer to ``/large``."""


def guarded(config: ListenConfig) -> FastAPI:
    """An application behind the guard, without a runtime or an engine."""
    app = application("guarded", config)

    @app.get("/health")
    @app.get("/metrics")
    @app.get("/app")
    async def app_name(request: Request) -> str:
        return app_of(request)

    @app.get("/owner")
    async def owner(request: Request) -> bool:
        return is_owner(request)

    @app.post("/body")
    @app.post("/api/body")
    async def body_size(request: Request) -> int:
        return len(await request.body())

    @app.get("/large")
    async def large() -> Response:
        app.state.large_answers += 1
        return Response(bytes(LARGE))

    app.state.large_answers = 0
    return app


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts guarded applications with settings of their own, until the test ends."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Running:
            config = ListenConfig(**{"port": 0, "drain_s": 5} | settings)
            return stack.enter_context(listening(guarded(config), config))

        yield start


@pytest.fixture
def server(start: Start) -> Running:
    return start()


@pytest.fixture
def heads_timed_from_their_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time limits of heads do not count how long the test takes from connecting to sending."""
    start_timer = Connection._start_timer

    def start_in_head(connection: Connection) -> None:
        if connection.conn.unparsed:
            start_timer(connection)

    monkeypatch.setattr(Connection, "_start_timer", start_in_head)


@pytest.fixture
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client
