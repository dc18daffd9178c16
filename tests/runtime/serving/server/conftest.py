from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import EmbeddingModel, LocalRuntime, ModelPool
from agentrt.runtime.pool.background.conditions import BackgroundConditions
from agentrt.runtime.pool.background.config import BackgroundConfig
from agentrt.runtime.request.request import Request
from agentrt.runtime.serving.http.identity import Tokens
from agentrt.runtime.serving.server import ServerConfig, bind, create_app
from agentrt.runtime.serving.server.app import add_ollama
from tests.runtime.serving.http.serving import Running, Start, listening
from tests.runtime.tiny import tiny_folder

__all__ = ["tiny_folder"]

HELLO = [{"role": "user", "content": "Hello!"}]
WEATHER = [{"role": "user", "content": "What is the weather in Ljubljana?"}]

ANY_LOAD = BackgroundConfig(conditions=BackgroundConditions(max_other_load=None))
"""Other tests load the machine meanwhile."""


@contextmanager
def running(
    runtime: LocalRuntime | ModelPool,
    embedding: EmbeddingModel | None = None,
    background: BackgroundConfig = ANY_LOAD,
    **settings: Any,
) -> Iterator[Running]:
    """Serve ``runtime``, and at a listener of their own Ollama's clients."""
    config = ServerConfig(**{"port": 0, "drain_s": 5} | settings)
    app = create_app(runtime, config, embedding, background)
    ollama_config = config.model_copy(update={"uds": None, "port": 0})
    with bind(ollama_config) as listener:
        add_ollama(app, ollama_config, listener)
        with listening(app, config, listener) as server:
            yield server


class _RouteTransport(httpx.HTTPTransport):
    """Sends requests for Ollama's routes to their listener."""

    def __init__(self, server: Running) -> None:
        super().__init__()
        self._server = server

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/api/"):
            request.url = request.url.copy_with(port=self._server.ollama_port)
        return super().handle_request(request)


def client_of(server: Running, **options: Any) -> httpx.Client:
    """Return a client of all routes of a server, each at its listener."""
    return httpx.Client(transport=_RouteTransport(server), base_url=server.url, timeout=60, **options)


@pytest.fixture(scope="session")
def shared_server(shared_runtime: LocalRuntime) -> Iterator[Running]:
    with running(shared_runtime) as server:
        yield server


@pytest.fixture
def server(shared_server: Running, runtime: LocalRuntime) -> Running:
    """A server without tokens, on the runtime that all tests share and that must be idle after each."""
    return shared_server


@pytest.fixture
def start(runtime: LocalRuntime) -> Iterator[Start]:
    """Starts servers with settings of their own on the shared runtime, until the test ends."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(runtime, **settings))


@pytest.fixture
def processed(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that the runtime has been given, in order."""
    seen: list[Request] = []
    process = runtime._input_processor.process

    def note(*arguments: Any, **options: Any) -> Request:
        seen.append(process(*arguments, **options))
        return seen[-1]

    monkeypatch.setattr(runtime._input_processor, "process", note)
    return seen


APPS = Tokens([("one", "1" * 20), ("two", "2" * 20)])
ONE, TWO = ({"authorization": f"Bearer {digit * 20}"} for digit in "12")


@pytest.fixture
def two_apps(start: Start) -> Iterator[list[httpx.Client]]:
    """Clients of the apps ``one``, the owner's, and ``two`` of one server."""
    server = start(tokens=APPS)
    with ExitStack() as stack:
        clients = (httpx.Client(base_url=server.url, headers=each, timeout=60) for each in (ONE, TWO))
        yield [stack.enter_context(client) for client in clients]


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def http(server: Running) -> Iterator[httpx.Client]:
    with client_of(server) as client:
        yield client
