"""The engines of the scheduler bench, which serve one schedule of requests, and their servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from ..common.bench_model import BenchModel, Texts
from ..common.process import SideProcess
from ..common.served_runtime import RuntimeService, ServedRuntime
from ..engines.endpoint import Endpoint, PeerAddress, open_peer
from ..engines.llama_cpp import SHARED_CACHE, LlamaCpp
from ..engines.local import OURS, AgentRT
from ..engines.openvino_genai import ContinuousBatching
from ..engines.openvino_server import OpenVINOGenAIServer
from ..engines.side import EngineProcess, Request, Run

GENAI: Final = "openvino_genai"
LLAMA_CPP: Final = "llama_cpp"
SLOTS: Final = 4
"""Requests at once of llama.cpp's server for the agent, as many as it has by default."""
_SLOT_TOKENS: Final = 4096
_BATCH_SLOTS, _BATCH_SLOT_TOKENS = 16, 2048
"""Requests at once of all engines under the schedules."""
_CACHE_GIB: Final = 1


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
    """A side, and the texts of its requests: every engine gets the same ones, and none comes twice."""

    def __init__(self, side: EngineProcess | Endpoint, model: BenchModel) -> None:
        """Send the requests to ``side``, which serves ``model``."""
        self.context_length: Final = side.context_length
        self._side = side
        self._texts = Texts(model, 3)

    def serve(self, arrivals: Sequence[Arrival]) -> Run:
        """Send each request at its arrival time and wait for the last answer."""
        return self._side.stream(
            [
                Request(
                    self._texts.take(each.prompt_tokens),
                    each.answer_tokens,
                    at_s=each.at_s,
                    reactive=each.reactive,
                )
                for each in arrivals
            ]
        )


@contextmanager
def open_engines(model: BenchModel, peers: Sequence[PeerAddress] = ()) -> Iterator[dict[str, Engine]]:
    """Yield the engines with ``model`` by name: agentrt, OpenVINO GenAI, and llama.cpp for a GGUF file.

    Raises:
        BenchPeerError: one of ``peers`` does not serve the model.
    """
    beside = {each.name: Engine(open_peer(each), model) for each in peers}
    path = str(model.path)
    settings = {"memory_bytes": _CACHE_GIB * 2**30, "constrain_tool_calls": False}
    with ExitStack() as stack:
        engines = {
            OURS: Engine(stack.enter_context(EngineProcess(AgentRT, path, settings)), model),
            GENAI: Engine(stack.enter_context(EngineProcess(ContinuousBatching, path, _CACHE_GIB)), model),
        }
        if model.gguf is not None and LLAMA_CPP not in beside:
            url = stack.enter_context(_llama_cpp(model, _BATCH_SLOTS, _BATCH_SLOT_TOKENS))
            beside[LLAMA_CPP] = Engine(open_peer(PeerAddress(LLAMA_CPP, url)), model)
        yield {**engines, **beside}


@contextmanager
def _llama_cpp(model: BenchModel, slots: int, slot_tokens: int) -> Iterator[str]:
    """Yield the address of llama.cpp's server for ``slots`` requests of ``slot_tokens`` tokens at once."""
    opened = (str(model.gguf), slots * slot_tokens, slots, SHARED_CACHE)
    with EngineProcess(LlamaCpp, *opened) as process:
        yield str(process.call("url"))


@contextmanager
def open_servers(model: BenchModel) -> Iterator[dict[str, Endpoint]]:
    """Yield servers of ``model`` with their own defaults by name; llama.cpp's if there is a GGUF file."""
    path = str(model.path)
    with ExitStack() as stack:
        own = stack.enter_context(ServedRuntime(_serve_runtime, path))
        genai = stack.enter_context(SideProcess(OpenVINOGenAIServer, path))
        urls = {OURS: f"http://127.0.0.1:{own.port}", GENAI: str(genai.call("url"))}
        if model.gguf is not None:
            urls[LLAMA_CPP] = stack.enter_context(_llama_cpp(model, SLOTS, _SLOT_TOKENS))
        yield {name: Endpoint(name, url) for name, url in urls.items()}


def _serve_runtime(model: str) -> RuntimeService:
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig

    return RuntimeService(model, RuntimeConfig(), ServerConfig(port=0))
