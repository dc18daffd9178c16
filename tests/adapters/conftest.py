import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentrt.adapters.stainless.tool_cache import ToolCacheEndpoint
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.serving.server import status
from agentrt.runtime.toolcache.outputs import ToolOutputs
from tests.runtime.conftest import Gate
from tests.runtime.serving.http.serving import Running
from tests.runtime.serving.server.conftest import running


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio; not on trio, which the frameworks do without."""
    return "asyncio"


@pytest.fixture(scope="module")
def exact_runtime() -> Iterator[LocalRuntime]:
    """Nano in full precision, where what shares a batch with an answer cannot change it."""
    exact = RuntimeConfig(
        memory_bytes=32 * 2**20, inference_precision="f32", kv_cache_precision="f32", threads=1
    )
    with LocalRuntime.open("nano", exact) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(exact_runtime: LocalRuntime) -> Iterator[Running]:
    with running(exact_runtime) as server:
        yield server


@pytest.fixture
def no_thread_at_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients ask for the platform's name in a thread, for which virtual time does not wait."""

    async def platform() -> str:
        return "Linux"

    for library in {"anthropic", "openai"} & sys.modules.keys():
        monkeypatch.setattr(f"{library}._base_client.asyncify", lambda function: platform)


@pytest.fixture
def start_engine(
    exact_runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """Starts the engine, which stands still until then; after 60 s it goes on, and the test fails."""
    gate = Gate(exact_runtime, monkeypatch)
    started = threading.Event()
    late = threading.Timer(60, gate.open)
    late.start()

    def start() -> None:
        started.set()
        gate.open()

    yield start
    late.cancel()
    gate.open()
    assert started.is_set(), "what the engine waits for did not come within 60 s"


@pytest.fixture
def in_time(start_engine: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine stands still until a result has come."""
    put = ToolOutputs.put

    def put_and_go_on(self: ToolOutputs, *arguments: Any, **options: Any) -> bool:
        kept = put(self, *arguments, **options)
        start_engine()
        return kept

    monkeypatch.setattr(ToolOutputs, "put", put_and_go_on)


@pytest.fixture
def without_tool_cache(start_engine: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lists no tool cache; the engine stands still until a client that has a result knows it."""
    describe = status._describe
    monkeypatch.setattr(status, "_describe", lambda *given: describe(*given) | {"capabilities": []})
    monkeypatch.setattr(ToolOutputs, "put", None)
    submit, asubmit = ToolCacheEndpoint._submit, ToolCacheEndpoint._asubmit

    def submit_and_go_on(self: ToolCacheEndpoint, *given: Any) -> None:
        submit(self, *given)
        start_engine()

    async def asubmit_and_go_on(self: ToolCacheEndpoint, *given: Any) -> None:
        await asubmit(self, *given)
        start_engine()

    monkeypatch.setattr(ToolCacheEndpoint, "_submit", submit_and_go_on)
    monkeypatch.setattr(ToolCacheEndpoint, "_asubmit", asubmit_and_go_on)
