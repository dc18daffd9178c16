"""The servers that other people's benches run on: agentrt, llama.cpp and OpenVINO GenAI with one model."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.error import HTTPError

from ..common.bench_model import BenchModel
from ..common.process import SideProcess
from ..common.served_runtime import RuntimeService, ServedRuntime
from ..engines.llama_cpp import LLAMA_CPP, SHARED_CACHE, llama_cpp_builds
from ..engines.local import OURS
from ..engines.openvino_server import OpenVINOGenAIServer
from ..engines.side import EngineProcess

OPENVINO_GENAI: Final = "openvino_genai"
_SLOTS, _CONTEXT = 2, 32768
"""Of llama.cpp: one for the agent and one for what runs beside it, in one cache."""
_TIMEOUT_S: Final = 1800


@dataclass(frozen=True, slots=True)
class Server:
    """A server with OpenAI's API, in a process of its own."""

    name: str
    url: str
    """Without ``/v1``."""
    model: str
    process: SideProcess

    def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the message that answers a chat request."""
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions",
            json.dumps({"model": self.model, **body}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            message: dict[str, Any] = json.load(response)["choices"][0]["message"]
            return message


@contextmanager
def open_servers(model: BenchModel) -> Iterator[dict[str, Server]]:
    """Yield the servers of a GGUF file by name, ours first. All stay open: one that waits takes no time.

    llama.cpp's is the build for this processor if there is one, else the wheel's.

    Raises:
        ConfigurationError: there should be such a build, but is none.
    """
    *_, build = llama_cpp_builds().values()
    with ExitStack() as stack:
        ours = stack.enter_context(ServedRuntime(_Service, model.opened))
        opened = (str(model.gguf), _CONTEXT, _SLOTS, SHARED_CACHE)
        llama = stack.enter_context(EngineProcess(build, *opened))
        genai = stack.enter_context(SideProcess(OpenVINOGenAIServer, str(model.path)))
        urls: dict[str, tuple[str, SideProcess]] = {
            OURS: (f"http://127.0.0.1:{ours.port}", ours),
            LLAMA_CPP: (str(llama.call("url")), llama),
            OPENVINO_GENAI: (str(genai.call("url")), genai),
        }
        yield {
            name: Server(name, url, _model_of(url) or model.title, process)
            for name, (url, process) in urls.items()
        }


def _model_of(url: str) -> str | None:
    """Return the name of a server's model; None if it does not say."""
    try:
        with urllib.request.urlopen(f"{url}/v1/models", timeout=_TIMEOUT_S) as response:
            return str(json.load(response)["data"][0]["id"])
    except HTTPError:
        return None


class _Service(RuntimeService):
    """agentrt's server in its process, with its defaults."""

    def __init__(self, model: str) -> None:
        from agentrt.runtime import RuntimeConfig
        from agentrt.runtime.serving.server import ServerConfig

        super().__init__(model, RuntimeConfig(), ServerConfig(port=0))

    def call_format(self) -> str | None:
        """Return how the model is expected to write calls."""
        format = self._runtime.call_format
        return None if format is None else format.name
