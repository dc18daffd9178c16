"""The servers of the agent-turn figures, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from ..common.bench_model import BenchModel
from ..common.process import SideProcess
from ..common.served_runtime import RuntimeService, ServedRuntime
from .genai_server import OpenVINOGenAIServer
from .llama_cpp import serve_llama_cpp

OURS: Final = "agentrt"
SLOTS: Final = 4
"""Requests at once of llama.cpp's server, as many as it has by default."""
_SLOT_TOKENS: Final = 4096


@contextmanager
def agent_servers(model: BenchModel) -> Iterator[dict[str, str]]:
    """Yield the addresses of the servers of ``model``, without ``/v1``, by name.

    llama.cpp's is one of them if there is a GGUF file for it.
    """
    with ExitStack() as stack:
        own = stack.enter_context(ServedRuntime(_serve_runtime, str(model.path)))
        genai = stack.enter_context(SideProcess(OpenVINOGenAIServer, str(model.path)))
        urls = {OURS: f"http://127.0.0.1:{own.port}", "openvino_genai": str(genai.call("url"))}
        if model.gguf is not None:
            urls["llama_cpp"] = stack.enter_context(serve_llama_cpp(str(model.gguf), SLOTS, _SLOT_TOKENS))
        yield urls


def _serve_runtime(model: str) -> RuntimeService:
    from agentrt.runtime import RuntimeConfig
    from agentrt.runtime.serving.server import ServerConfig

    return RuntimeService(model, RuntimeConfig(), ServerConfig(port=0))
