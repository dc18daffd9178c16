"""The servers that the scheduler bench compares, which serve one schedule of requests over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from ..common.bench_model import BenchModel, Texts
from ..common.process import SideProcess
from ..common.served_runtime import RuntimeService, ServedRuntime
from ..engines.endpoint import Endpoint, open_vllm
from ..engines.llama_cpp import SHARED_CACHE, llama_cpp_builds
from ..engines.local import OURS
from ..engines.openvino_server import OpenVINOGenAIServer
from ..engines.side import Answer, EngineProcess, Request

GENAI, GENAI_DEFAULT = "openvino_genai", "openvino_genai_default_groups"
"""Names in tables: OpenVINO GenAI with activations in agentrt's groups, and in OpenVINO's default."""
_SLOTS, _SLOT_TOKENS = 16, 4096
"""Requests at once of llama.cpp's server, and their tokens in its one cache."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a schedule."""

    at_s: float
    """When it is meant to arrive, from the beginning."""
    prompt_tokens: int
    """About so many: the text is made of whole words."""
    answer_tokens: int
    reactive: bool


class Engine:
    """A server, and the texts of its requests: every engine gets the same ones, and none comes twice."""

    def __init__(self, server: Endpoint, model: BenchModel) -> None:
        self.server = server
        self._texts = Texts(model, 3)

    def request(self, arrival: Arrival) -> Request:
        text = self._texts.take(arrival.prompt_tokens)
        return Request(text, arrival.answer_tokens, at_s=arrival.at_s, reactive=arrival.reactive)

    def serve(self, arrivals: Sequence[Arrival]) -> tuple[Answer, ...]:
        """Send each request at its arrival time; return all answers."""
        return self.server.stream(list(map(self.request, arrivals))).answers


@contextmanager
def open_engines(model: BenchModel, peers: Sequence[str] = ()) -> Iterator[dict[str, Engine]]:
    """Yield servers of ``model`` by name: agentrt, OpenVINO GenAI, and llama.cpp's builds for a GGUF file.

    ``peers`` are the addresses of vLLM servers.

    Raises:
        BenchPeerError: one of ``peers`` does not serve the model.
    """
    beside = [open_vllm(url) for url in peers]
    path = str(model.path)
    with ExitStack() as stack:
        own = stack.enter_context(ServedRuntime(_serve_runtime, model.opened))
        urls = {OURS: f"http://127.0.0.1:{own.port}"}
        for name, default_groups in ((GENAI, False), (GENAI_DEFAULT, True)):
            make = partial(OpenVINOGenAIServer, default_groups=default_groups)
            urls[name] = str(stack.enter_context(SideProcess(make, path)).call("url"))
        for name, build in llama_cpp_builds().items() if model.gguf is not None else ():
            opened = (str(model.gguf), _SLOTS * _SLOT_TOKENS, _SLOTS, SHARED_CACHE)
            urls[name] = str(stack.enter_context(EngineProcess(build, *opened)).call("url"))
        servers = [*(Endpoint(name, url) for name, url in urls.items()), *beside]
        yield {server.name: Engine(server, model) for server in servers}


def _serve_runtime(model: str) -> RuntimeService:
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig

    return RuntimeService(model, RuntimeConfig(), ServerConfig(port=0))
