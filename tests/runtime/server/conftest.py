from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI

from agentrt.runtime import LocalRuntime
from agentrt.runtime.http.config import ListenConfig
from agentrt.runtime.http.run import server_of
from agentrt.runtime.server import ServerConfig, bind, create_app

HELLO = [{"role": "user", "content": "Hello!"}]
WEATHER = [{"role": "user", "content": "What is the weather in Ljubljana?"}]


@dataclass(frozen=True)
class Running:
    """A server that is up, on a thread of its own."""

    port: int
    admission: Any

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextmanager
def listening(app: FastAPI, config: ListenConfig, admission: Any = None) -> Iterator[Running]:
    with bind(config) as listener:
        server = server_of(app, config)
        listener.listen(2048)
        port = 0 if config.uds else listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield Running(port, admission)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextmanager
def running(runtime: LocalRuntime, **settings: Any) -> Iterator[Running]:
    config = ServerConfig(**{"port": 0, "drain_s": 5} | settings)
    app = create_app(runtime, config)
    with listening(app, config, app.state.service.admission) as server:
        yield server


@pytest.fixture(scope="session")
def shared_server(shared_runtime: LocalRuntime) -> Iterator[Running]:
    with running(shared_runtime) as server:
        yield server


@pytest.fixture
def server(shared_server: Running, runtime: LocalRuntime) -> Running:
    """A server without tokens, on the runtime that all tests share and that must be idle after each."""
    return shared_server


@pytest.fixture
def start(runtime: LocalRuntime) -> Iterator[Callable[..., Running]]:
    """Starts servers with settings of their own on the shared runtime, until the test ends."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(runtime, **settings))


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client
