"""Several models behind one server, over real sockets: nano, and a tiny model with random weights."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.pool.model_pool import ModelPool, PoolConfig
from agentrt.runtime.pool.pooled_model import PooledModel
from agentrt.runtime.serving.server import ServerConfig, create_app
from tests.hypothesis_profiles import first_of
from tests.patience import until
from tests.runtime.serving.http.serving import Running, listening
from tests.runtime.serving.server.conftest import HELLO
from tests.runtime.tiny import tiny_gguf

CONFIG = RuntimeConfig(
    memory_bytes=8 * 2**20, inference_precision="f32", kv_cache_precision="f32", threads=1, quantum_s=0.1
)
MIB = 2**20


class Opener:
    """Opens runtimes, counts openings, and can hold one back."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.may_open = threading.Event()
        self.may_open.set()
        self.begun = threading.Event()

    def __call__(self, model: Any, config: RuntimeConfig, **options: Any) -> LocalRuntime:
        self.opened.append(Path(model).stem)
        self.begun.set()
        assert self.may_open.wait(60)
        return LocalRuntime.open(model, config, **options)


class Service:
    """A server of nano and the tiny model, whose name is ``llama``."""

    def __init__(self, running: Running, pool: ModelPool, opener: Opener) -> None:
        self.pool = pool
        self.opener = opener
        self.http = httpx.Client(base_url=running.url, timeout=120)
        self.client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=120)

    def ask(self, model: str, **options: Any) -> Any:
        options = {"messages": HELLO, "max_tokens": 4, **options}
        return self.client.chat.completions.create(model=model, **options)

    def statuses(self) -> dict[str, str]:
        return {model.id: model.model_extra["status"] for model in self.client.models.list()}

    def metrics(self) -> dict[tuple[str, ...], float]:
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(self.http.get("/metrics").text)
            for sample in family.samples
        }


@pytest.fixture
def serve(tiny_folder: Path) -> Iterator[Callable[..., Service]]:
    """Start servers; afterwards check that they stop and that no request is left."""

    @contextmanager
    def serve_one(**settings: Any) -> Iterator[Service]:
        opener = Opener()
        models = [
            PooledModel.find("nano", CONFIG, ["nano", "assistant"]),
            PooledModel.find(tiny_gguf(tiny_folder, "llama"), CONFIG),
        ]
        config = ServerConfig(port=0, drain_s=5)
        with ModelPool(models, PoolConfig(**settings), open_runtime=opener) as pool:
            pool.open_first()
            app = create_app(pool, config)
            with listening(app, config) as running:
                service = Service(running, pool, opener)
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
    assert service.opener.opened == ["nano", "llama"]


def test_an_unknown_model(serve: Callable[..., Service]) -> None:
    service = serve()
    for call in (service.ask, service.client.models.retrieve):
        with pytest.raises(openai.NotFoundError, match="Use 'nano' or 'assistant' or 'llama'") as caught:
            call("gpt-4")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("streamed", first_of([False, True]))
def test_both_interfaces_load_a_model(serve: Callable[..., Service], streamed: bool) -> None:
    service = serve()
    options = {"model": "llama", "input": "Hello!", "max_output_tokens": 4, "stream": streamed}
    made: Any = service.client.responses.create(**options)
    response = list(made)[-1].response if streamed else made
    assert response.model == "llama"
    chunks: Any = service.ask("llama", stream=True)
    assert {chunk.model for chunk in chunks} == {"llama"}


@pytest.mark.check
def test_a_client_that_disconnects_does_not_end_the_load(serve: Callable[..., Service]) -> None:
    service = serve()
    service.opener.may_open.clear()
    service.opener.begun.clear()
    body = {"model": "llama", "messages": HELLO, "max_tokens": 4, "stream": True}
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(service.ask, "llama")
        with pytest.raises(httpx.ReadTimeout):
            service.http.post("/v1/chat/completions", json=body, timeout=0.2)
        until(lambda: service.pool.models[1].requests <= 1)  # the server has seen it
        service.opener.may_open.set()
        assert waiting.result().model == "llama"
    assert service.opener.opened == ["nano", "llama"]


def test_a_model_that_is_not_in_use_makes_room(serve: Callable[..., Service]) -> None:
    service = serve()
    needed = [model.memory_bytes for model in service.pool.models]
    service.pool.memory_budget_bytes = sum(needed) - 1
    assert service.ask("llama").model == "llama"
    assert service.statuses() == {"nano": "unloaded", "assistant": "unloaded", "llama": "loaded"}
    chunks = service.ask("llama", stream=True, max_tokens=500, extra_body={"ignore_eos": True})
    next(iter(chunks))
    with pytest.raises(openai.InternalServerError, match="models in use") as caught:
        service.ask("nano")
    assert (caught.value.status_code, caught.value.code) == (503, "model_unavailable")
    assert int(caught.value.response.headers["retry-after"]) > 0
    chunks.close()
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
def test_health_and_metrics_of_each_model(serve: Callable[..., Service]) -> None:
    service = serve()
    service.ask("llama", max_tokens=5, extra_body={"ignore_eos": True})
    service.ask("nano", max_tokens=3, extra_body={"ignore_eos": True})
    health = service.http.get("/health").json()
    assert health["status"] == "ok"
    assert [(each["id"], each["sampled_tokens"]) for each in health["models"]] == [("nano", 3), ("llama", 5)]
    assert health["sampled_tokens"] == 8
    samples = service.metrics()
    for model in ("nano", "llama"):
        assert samples["agentrt_answer_tokens_bucket", "completion", "64.0", model] == 1
    assert samples["agentrt_model_memory_bytes", "llama"] > 8 * MIB


@pytest.mark.check
def test_an_unloaded_model_is_freed_at_once(serve: Callable[..., Service]) -> None:
    service = serve()
    service.ask("nano")
    list(service.ask("nano", stream=True))
    runtime = service.pool.models[0].runtime
    assert runtime is not None
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


@pytest.mark.check
def test_contexts_of_several_models(serve: Callable[..., Service]) -> None:
    service = serve()
    http = service.http
    made = [http.post("/v1/contexts", json={"model": name}).json() for name in ("nano", "llama", "nano")]
    assert [context["model"] for context in made] == ["nano", "llama", "nano"]
    body = {"messages": HELLO, "max_tokens": 4}
    for context in (made[1], made[0]):
        answer = http.post(f"/v1/contexts/{context['id']}/chat/completions", json=body).json()
        assert answer["model"] == context["model"]
    listed = http.get("/v1/contexts").json()["data"]
    assert [context["id"] for context in listed] == [made[2]["id"], made[1]["id"], made[0]["id"]]
    wrong = http.post(f"/v1/contexts/{made[0]['id']}/chat/completions", json=body | {"model": "llama"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "model")
