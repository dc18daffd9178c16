import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.toolcache.outputs import ToolOutputs
from tests.runtime.conftest import Gate


@pytest.fixture(scope="module")
def exact_runtime() -> Iterator[LocalRuntime]:
    """Nano in full precision, where what shares a batch with an answer cannot change it."""
    exact = RuntimeConfig(
        memory_bytes=32 * 2**20, inference_precision="f32", kv_cache_precision="f32", threads=1
    )
    with LocalRuntime.open("nano", exact) as opened:
        yield opened


@pytest.fixture
def no_thread_at_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The OpenAI client asks for the platform's name in a thread, for which virtual time does not wait."""

    async def platform() -> str:
        return "Linux"

    monkeypatch.setattr("openai._base_client.asyncify", lambda function: platform)


@pytest.fixture
def in_time(exact_runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine stands still until a result has come; after 20 s it goes on, and the test fails."""
    gate = Gate(exact_runtime, monkeypatch)
    came = threading.Event()
    late = threading.Timer(20, gate.open)
    late.start()
    put = ToolOutputs.put

    def put_and_go_on(self: ToolOutputs, *arguments: Any, **options: Any) -> bool:
        kept = put(self, *arguments, **options)
        came.set()
        gate.open()
        return kept

    monkeypatch.setattr(ToolOutputs, "put", put_and_go_on)
    yield
    late.cancel()
    gate.open()
    assert came.is_set(), "no result was submitted within 20 s"
