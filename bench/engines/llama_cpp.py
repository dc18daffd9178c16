"""llama.cpp's own server on a GGUF file (the package ``xllamacpp``)."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, Final

from agentrt.calls import ToolCall, parse_arguments
from agentrt.errors import BenchPeerError

from ..common.machine import describe_machine, peak_memory_bytes
from .side import Answer, Request, Run

_TIMEOUT_S: Final = 600
_WARNINGS: Final = 2
"""Verbosity without a line for each request."""
SHARED_CACHE: Final[Mapping[str, Any]] = {"use_jinja": True, "kv_unified": True}
"""Its sequences share one cache, and it renders chat templates itself."""


class LlamaCpp:
    """The server in this process, which should be an :class:`EngineProcess` of its own; a :class:`Side`."""

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
        chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = (
            threads or describe_machine().usable_cores
        )
        for name, value in parameters.items():
            setattr(chosen, name, value)
        if ngram_map:
            kind = xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K
            chosen.speculative.types = [kind]
        self._server = xllamacpp.Server(chosen)
        self.context_length = context // sequences
        self.url = str(self._server.listening_address)
        """The server's address, without ``/v1``."""

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

    def peak_memory(self) -> int | None:
        return peak_memory_bytes()

    def close(self) -> None:
        del self._server


def _call(made: Mapping[str, Any]) -> ToolCall:
    try:
        arguments = parse_arguments(made["function"]["arguments"])
    except ValueError:
        arguments = {}
    return ToolCall(made["function"]["name"], arguments)
