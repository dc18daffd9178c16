from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentrt.runtime import LocalRuntime, ModelPool
from agentrt.runtime.pool.pooled_model import PooledModel
from agentrt.runtime.serving.gateway import (
    GatewayConfig,
    bounded_redis,
    create_gateway,
    separation,
    shared_outputs,
)
from agentrt.runtime.serving.server import status
from tests.runtime.serving.gateway.redis_server import RedisServer
from tests.runtime.serving.gateway.scripted import Play, Script, Scripted
from tests.runtime.serving.http.serving import Running, Start, listening, until
from tests.runtime.serving.server.conftest import running


@contextmanager
def gateway_before(upstream: str, **settings: Any) -> Iterator[Running]:
    config = GatewayConfig(**{"upstream": upstream, "port": 0, "drain_s": 5} | settings)
    app = create_gateway(config)
    with listening(app, config) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def shared_engine(shared_runtime: LocalRuntime) -> Iterator[Running]:
    """A real engine that does not say that it has a tool cache; the ids of its own responses are unknown."""
    describe = status._describe
    pool = ModelPool.of(shared_runtime)
    with pytest.MonkeyPatch.context() as patch, running(pool) as server:

        def describe_engine(model: PooledModel, name: str, created: int) -> dict[str, Any]:
            is_engine = model in pool.models
            return describe(model, name, created) | ({"capabilities": []} if is_engine else {})

        patch.setattr(status, "_describe", describe_engine)
        yield server


@pytest.fixture
def engine(shared_engine: Running, runtime: LocalRuntime) -> Running:
    return shared_engine


@pytest.fixture(scope="session")
def shared_gateway(shared_engine: Running) -> Iterator[Running]:
    with gateway_before(f"{shared_engine.url}/v1") as gateway:
        yield gateway


@pytest.fixture
def gateway(shared_gateway: Running, engine: Running) -> Iterator[Running]:
    """A gateway without tokens in front of the engine; idle after each test."""
    yield shared_gateway
    until(lambda: shared_gateway.admission.active == engine.admission.active == 0)


@pytest.fixture
def http(gateway: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, timeout=60) as client:
        yield client


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts gateways with settings of their own, until the test ends."""
    with ExitStack() as stack:
        yield lambda upstream, **settings: stack.enter_context(gateway_before(upstream, **settings))


def waiting_for_redis(patch: pytest.MonkeyPatch, seconds: float, socket_seconds: float) -> None:
    """Let gateways wait so long for an answer of Redis, and for each step of its connections."""
    for module in (separation, shared_outputs):
        for name in ("_ADD_", "_LOOK_UP_", "_STREAM_", "_TAKE_", "_SUBMISSION_"):
            patch.setattr(module, f"{name}TIMEOUT_S", seconds, raising=False)
    patch.setattr(bounded_redis, "_SOCKET_TIMEOUT_S", socket_seconds)


@pytest.fixture
def redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """A healthy Redis, which counts as such however busy the machine is."""
    waiting_for_redis(monkeypatch, 60.0, 60.0)
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def scripted() -> Iterator[Script]:
    """Starts scripted engines, until the test ends."""
    with ExitStack() as stack:
        yield lambda *arguments, **script: stack.enter_context(closing(Scripted(*arguments, **script)))


@pytest.fixture(scope="module")
def fake_engine() -> Iterator[Scripted]:
    with closing(Scripted()) as engine:
        yield engine


@pytest.fixture(scope="module")
def fake_gateway(fake_engine: Scripted) -> Iterator[Running]:
    with gateway_before(fake_engine.url) as gateway:
        yield gateway


@pytest.fixture
def play(fake_engine: Scripted, fake_gateway: Running) -> Play:
    """Lets the fake engine answer, and returns a gateway without tokens in front of it."""

    def play(answer: bytes, **script: Any) -> Running:
        fake_engine.play(answer, **script)
        return fake_gateway

    return play
