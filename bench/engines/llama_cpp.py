"""llama.cpp's own server on a GGUF file: that of the package ``xllamacpp``, or built for this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Any, Final

from agentrt.calls import ToolCall, parse_arguments
from agentrt.errors import BenchPeerError, BenchProcessError, ConfigurationError

from ..common.machine import describe_machine, peak_memory_bytes
from .side import Answer, Request, Run

LLAMA_CPP, LLAMA_CPP_NATIVE = "llama_cpp", "llama_cpp_native"
"""Names in tables: the wheel, which is compiled for many processors, and the build for this one."""
EXECUTABLE: Final = "AGENTRT_LLAMA_SERVER"
"""The variable that names the executable ``llama-server`` of the build for this processor."""
_TIMEOUT_S: Final = 600
_POLL_S: Final = 0.05
_WARNINGS: Final = 2
"""Verbosity without a line for each request."""
_TRACE: Final = 4
_LAST_LINES: Final = 20
SHARED_CACHE: Final[Mapping[str, Any]] = {"use_jinja": True, "kv_unified": True}
"""Its sequences share one cache, and it renders chat templates itself."""
_FLAGS: Final = {"use_jinja": "--jinja", "cache_ram_mib": "--cache-ram"}
"""What parameters are called on the command line, where that is not their name."""


class _Server:
    """A client of the server at :attr:`url`; a :class:`Side`."""

    def __init__(self, url: str, context_length: int) -> None:
        self.url = url
        """The server's address, without ``/v1``."""
        self.context_length = context_length

    def generate(self, request: Request) -> Answer:
        """See :meth:`Side.generate`. The prefix cache is used for token ids only."""
        begun = time.perf_counter()
        if request.token_ids is None:
            return self._chat(request, begun)
        body = {"prompt": request.token_ids, "n_predict": request.max_tokens, "cache_prompt": True}
        made = self.post("/completion", {**body, "temperature": 0, "return_tokens": True})
        timings, tokens = made["timings"], tuple(made["tokens"])
        decode_s = timings["predicted_ms"] / 1e3
        total_s = decode_s + timings["prompt_ms"] / 1e3
        return Answer(
            request, len(request.token_ids), len(tokens), total_s - decode_s, total_s, decode_s, tokens
        )

    def _chat(self, request: Request, begun: float) -> Answer:
        body = {
            "messages": request.messages, "max_tokens": request.max_tokens, "temperature": 0,
            "ignore_eos": request.ignore_eos, "cache_prompt": False,
            **({} if request.tools is None else {"tools": list(request.tools)}),
        }  # fmt: skip
        made = self.post("/v1/chat/completions", body)
        total_s, decode_s = time.perf_counter() - begun, made["timings"]["predicted_ms"] / 1e3
        usage, message = made["usage"], made["choices"][0]["message"]
        if request.ignore_eos and usage["completion_tokens"] != request.max_tokens:
            problem = f"answered {usage['completion_tokens']} of {request.max_tokens} tokens"
            raise BenchPeerError("llama_cpp", self.url, problem)
        return Answer(
            request,
            usage["prompt_tokens"],
            usage["completion_tokens"],
            total_s - decode_s,
            total_s,
            decode_s,
            text=message.get("content") or "",
            calls=tuple(map(_call, message.get("tool_calls") or ())),
        )

    def stream(self, requests: Sequence[Request]) -> Run:
        """See :meth:`Side.stream`. Answers are not streamed, which would cost the server time."""
        begun = time.perf_counter()

        def answer(request: Request) -> Answer:
            time.sleep(max(0.0, begun + request.at_s - time.perf_counter()))
            return self.generate(request)

        with ThreadPoolExecutor(len(requests)) as threads:
            answers = tuple(threads.map(answer, requests))
        return Run(answers, time.perf_counter() - begun)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to ``body``, both JSON. Callable from several threads at once."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)


class LlamaCpp(_Server):
    """The wheel's server in this process, which should be an :class:`EngineProcess` of its own."""

    def __init__(
        self,
        model: str,
        context: int,
        sequences: int = 1,
        parameters: Mapping[str, Any] = MappingProxyType({}),
        threads: int | None = None,
        *,
        ngram_map: bool = False,
    ) -> None:
        """Start the server with ``model``, a GGUF file.

        It holds ``sequences`` sequences, of ``context`` tokens together. ``parameters`` are further ones of
        ``xllamacpp.CommonParams``. With ``ngram_map`` it drafts from n-grams.
        """
        import xllamacpp

        chosen = xllamacpp.CommonParams()
        chosen.model.path = model
        chosen.verbosity = _WARNINGS
        chosen.n_ctx = context
        chosen.n_parallel = sequences
        chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = _threads(threads)
        for name, value in parameters.items():
            setattr(chosen, name, value)
        if ngram_map:
            kind = xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K
            chosen.speculative.types = [kind]
        self._server = xllamacpp.Server(chosen)
        super().__init__(str(self._server.listening_address), context // sequences)

    def peak_memory(self) -> int | None:
        return peak_memory_bytes()

    def close(self) -> None:
        del self._server


class LlamaServer(_Server):
    """An executable ``llama-server`` in a process that ends with this object."""

    def __init__(
        self,
        executable: str,
        model: str,
        context: int,
        sequences: int = 1,
        parameters: Mapping[str, Any] = MappingProxyType({}),
        threads: int | None = None,
        *,
        ngram_map: bool = False,
    ) -> None:
        """Start ``executable`` as :class:`LlamaCpp` starts the wheel's server.

        Raises:
            BenchProcessError: it ends before it serves the model.
        """
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        super().__init__(f"http://127.0.0.1:{port}", context // sequences)
        flags = {
            "--model": model, "--host": "127.0.0.1", "--port": port, "--verbosity": _WARNINGS,
            "--ctx-size": context, "--parallel": sequences,
            "--threads": _threads(threads), "--threads-batch": _threads(threads),
        }  # fmt: skip
        if ngram_map:
            flags["--spec-type"] = "ngram-map-k"
        said = [str(word) for flag in flags.items() for word in flag]
        for name, value in parameters.items():
            flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
            said += [flag] if value is True else [flag, str(value)]
        with TemporaryFile() as written:
            self._process = subprocess.Popen([executable, *said], stdout=written, stderr=written)
            self.close: Final = weakref.finalize(self, _end, self._process)
            while not self._is_ready():
                if (code := self._process.poll()) is not None:
                    written.seek(0)
                    lines = written.read().decode(errors="replace").splitlines()
                    raise BenchProcessError(code, lines[-_LAST_LINES:])
                time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=_TIMEOUT_S):
                return True
        except OSError:  # nothing listens yet, or it says 503 while the model is loaded
            return False

    def peak_memory(self) -> int | None:
        return peak_memory_bytes(self._process.pid)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _threads(given: int | None) -> int:
    return given or describe_machine().usable_cores


def llama_cpp_builds() -> dict[str, Callable[..., _Server]]:
    """Return what starts the server, by build: the wheel, and the executable that :data:`EXECUTABLE` names.

    Raises:
        ConfigurationError: the variable names no executable.
    """
    builds: dict[str, Callable[..., _Server]] = {LLAMA_CPP: LlamaCpp}
    if given := os.environ.get(EXECUTABLE):
        if not (Path(given).is_file() and os.access(given, os.X_OK)):
            raise ConfigurationError(f"{EXECUTABLE} names {given}, which is no executable.")
        builds[LLAMA_CPP_NATIVE] = partial(LlamaServer, given)
    return builds


def describe_builds() -> str:
    """Return a sentence with what :func:`llama_cpp_builds` returns, and what each is compiled for."""
    import xllamacpp

    wheel = f"xllamacpp {version('xllamacpp')} ({_enabled(xllamacpp.get_system_info())})"
    if not (given := os.environ.get(EXECUTABLE)):
        return (
            f"Of llama.cpp only the wheel ran, {wheel}: {EXECUTABLE} named no build for this processor, "
            "which may be faster."
        )
    # It says so before it looks for the model.
    command = [given, "--verbosity", str(_TRACE), "--model", os.devnull]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S)
    lines = (ran.stdout + ran.stderr).splitlines()
    info = next((line for line in lines if "system_info" in line), "it does not say for what")
    return f"llama_cpp is the wheel {wheel}, llama_cpp_native a build for this processor ({_enabled(info)})."


def _enabled(system_info: str) -> str:
    """Return the names of what a line of llama.cpp's system information says is on."""
    features = (part.partition(" = ") for part in system_info.rpartition(" : ")[2].split("|"))
    return " ".join(name.strip() for name, _, value in features if value.strip() == "1")


def _call(made: Mapping[str, Any]) -> ToolCall:
    try:
        arguments = parse_arguments(made["function"]["arguments"])
    except ValueError:
        arguments = {}
    return ToolCall(made["function"]["name"], arguments)
