"""The servers that the scheduler bench compares, which serve one schedule of requests over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ..common.bench_model import BenchModel, Texts
from ..common.process import SideProcess
from ..common.served_runtime import RuntimeService, ServedRuntime
from ..engines.endpoint import Endpoint, open_vllm
from ..engines.llama_cpp import SHARED_CACHE, LlamaCpp
from ..engines.local import OURS
from ..engines.openvino_server import OpenVINOGenAIServer
from ..engines.side import Answer, EngineProcess, Request

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
    """Yield servers of ``model`` by name: agentrt, OpenVINO GenAI, and llama.cpp for a GGUF file.

    ``peers`` are the addresses of vLLM servers.

    Raises:
        BenchPeerError: one of ``peers`` does not serve the model.
    """
    beside = [open_vllm(url) for url in peers]
    path = str(model.path)
    with ExitStack() as stack:
        own = stack.enter_context(ServedRuntime(_serve_runtime, path))
        genai = stack.enter_context(SideProcess(OpenVINOGenAIServer, path))
        urls = {OURS: f"http://127.0.0.1:{own.port}", "openvino_genai": str(genai.call("url"))}
        if model.gguf is not None:
            opened = (str(model.gguf), _SLOTS * _SLOT_TOKENS, _SLOTS, SHARED_CACHE)
            urls["llama_cpp"] = str(stack.enter_context(EngineProcess(LlamaCpp, *opened)).call("url"))
        servers = [*(Endpoint(name, url) for name, url in urls.items()), *beside]
        yield {server.name: Engine(server, model) for server in servers}


def _serve_runtime(model: str) -> RuntimeService:
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig

    return RuntimeService(model, RuntimeConfig(), ServerConfig(port=0))
