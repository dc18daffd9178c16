"""Several models behind one server, over real sockets: nano, and a tiny model with random weights."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from agentrt.runtime import RuntimeConfig
from agentrt.runtime.pool.model_pool import ModelPool, PoolConfig
from agentrt.runtime.pool.pooled_model import PooledModel
from agentrt.runtime.serving.server import ServerConfig, create_app
from tests.patience import until
from tests.runtime.conftest import Hold
from tests.runtime.serving.http.serving import Running, listening
from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.serving.server.test_status import samples_in
from tests.runtime.tiny import tiny_gguf

CONFIG = RuntimeConfig(
    memory_bytes=8 * 2**20, inference_precision="f32", kv_cache_precision="f32", threads=1, quantum_s=0.1
)
MIB = 2**20


class Service:
    """A server of nano and the tiny model, whose name is ``llama``."""

    def __init__(self, running: Running, pool: ModelPool) -> None:
        self.pool = pool
        self.http = httpx.Client(base_url=running.url, timeout=120)
        self.client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=120)

    def ask(self, model: str, **options: Any) -> Any:
        options = {"messages": HELLO, "max_tokens": 4, **options}
        return self.client.chat.completions.create(model=model, **options)

    def statuses(self) -> dict[str, str]:
        return {model.id: model.model_extra["status"] for model in self.client.models.list()}

    def metrics(self) -> dict[tuple[str, ...], float]:
        return samples_in(self.http.get("/metrics").text)


@pytest.fixture
def serve(tiny_folder: Path) -> Iterator[Callable[..., Service]]:
    """Start servers; afterwards check that they stop and that no request is left."""

    @contextmanager
    def serve_one(**settings: Any) -> Iterator[Service]:
        models = [
            PooledModel.find("nano", CONFIG, ["nano", "assistant"]),
            PooledModel.find(tiny_gguf(tiny_folder, "llama"), CONFIG),
        ]
        config = ServerConfig(port=0, drain_s=5)
        with ModelPool(models, PoolConfig(**settings)) as pool:
            pool.open_first()
            app = create_app(pool, config)
            with listening(app, config) as running:
                service = Service(running, pool)
                yield service
                service.http.close()
                service.client.close()
        assert not any(model.requests for model in models)

    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(serve_one(**settings))


def test_requests_choose_a_model_by_name(serve: Callable[..., Service]) -> None:
    service = serve()
    assert service.statuses() == {"nano": "loaded", "assistant": "loaded", "llama": "unloaded"}
    assert service.client.models.retrieve("assistant").model_extra["root"] == "nano"
    llama = service.ask("llama")
    assert llama.model == "llama"
    assert service.statuses() == {"nano": "loaded", "assistant": "loaded", "llama": "loaded"}
    named = service.ask("assistant")
    assert named.model == "nano"
    assert named.choices[0].message == service.ask("nano").choices[0].message
    assert named.choices[0].message.content != llama.choices[0].message.content
    body = {"messages": HELLO, "max_tokens": 4}
    assert service.http.post("/v1/chat/completions", json=body).json()["model"] == "nano"


def test_an_unknown_model(serve: Callable[..., Service]) -> None:
    service = serve()
    for call in (service.ask, service.client.models.retrieve):
        with pytest.raises(openai.NotFoundError, match="Use 'nano' or 'assistant' or 'llama'") as caught:
            call("gpt-4")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.check
def test_a_model_that_is_not_in_use_makes_room(serve: Callable[..., Service], hold: Hold) -> None:
    service = serve()
    needed = [model.memory_bytes for model in service.pool.models]
    service.pool.memory_budget_bytes = sum(needed) - 1
    assert service.ask("llama").model == "llama"
    assert service.statuses() == {"nano": "unloaded", "assistant": "unloaded", "llama": "loaded"}
    gate = hold(service.pool.models[1].runtime)
    chunks = service.ask("llama", stream=True, max_tokens=500, extra_body={"ignore_eos": True})
    next(iter(chunks))
    with pytest.raises(openai.InternalServerError, match="models in use") as caught:
        service.ask("nano")
    assert (caught.value.status_code, caught.value.code) == (503, "model_unavailable")
    assert int(caught.value.response.headers["retry-after"]) > 0
    chunks.close()
    gate.open()
    while service.pool.models[1].requests:
        pass  # until the server has seen it
    assert service.ask("nano").model == "nano"
    assert service.statuses()["llama"] == "unloaded"


@pytest.mark.check
def test_an_idle_model_is_unloaded_and_loaded_again(serve: Callable[..., Service]) -> None:
    service = serve(idle_unload_s=0.05)
    long = [{"role": "user", "content": "Find my notes about lasagne and pasta. " * 12}]
    before = service.ask("nano", max_tokens=12, messages=long)
    assert before.usage.prompt_tokens_details.cached_tokens == 0
    until(lambda: service.statuses()["nano"] == "unloaded")
    assert service.http.get("/health").json()["models"][0]["status"] == "unloaded"
    samples = service.metrics()
    assert samples["agentrt_model_loaded", "nano"] == 0
    assert samples["agentrt_requests_finished_total", "nano"] >= 1
    after = service.ask("nano", max_tokens=12, messages=long)
    assert after.choices[0].message == before.choices[0].message
    assert after.usage.prompt_tokens_details.cached_tokens > 0  # its context was saved
    assert service.metrics()["agentrt_requests_finished_total", "nano"] >= 2
    assert service.http.get("/health").json()["models"][0]["sampled_tokens"] >= 24
    assert service.metrics()["agentrt_model_loads_total", "nano"] >= 2


@pytest.mark.check
def test_an_unloaded_model_is_freed_at_once(serve: Callable[..., Service]) -> None:
    service = serve()
    service.ask("nano")
    list(service.ask("nano", stream=True))
    runtime = service.pool.models[0].runtime
    kernels = [xpu.kernels for xpu in runtime._platform.xpus.values()]
    models = [weakref.ref(model) for each in kernels for model in each.models]
    assert models
    service.pool.memory_budget_bytes = service.pool.models[0].memory_bytes + MIB
    gc.disable()
    try:
        service.ask("llama")
        assert service.statuses()["nano"] == "unloaded"
        assert not any(model() for model in models)
    finally:
        gc.enable()
