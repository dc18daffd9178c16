"""llama.cpp's server on the same GGUF file, in its own process (the package ``xllamacpp``)."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.calls import ToolCall, parse_arguments

from ..common.process import SideProcess


class LlamaCpp(SideProcess):
    """llama.cpp's server; a context manager."""

    def __init__(self, model: str, threads: int, context: int) -> None:
        """Start the server with ``model``, a GGUF file, on ``threads`` threads."""
        super().__init__(_Server, model, threads, context)

    def calls(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], max_tokens: int
    ) -> tuple[list[ToolCall], str]:
        """Return the calls that the server finds in its greedy answer, and the answer's other text."""
        found: tuple[list[ToolCall], str] = self.call("calls", messages, tools, max_tokens)
        return found

    def greedy_text(self, prompt: Sequence[int], max_tokens: int) -> str:
        """Return the greedy continuation of ``prompt``, token ids."""
        return str(self.call("greedy_text", prompt, max_tokens))


class _Server:
    def __init__(self, model: str, threads: int, context: int) -> None:
        import xllamacpp

        parameters = xllamacpp.CommonParams()
        parameters.model.path = model
        parameters.n_ctx = context
        parameters.n_parallel = 1
        parameters.cpuparams.n_threads = threads
        parameters.cpuparams_batch.n_threads = threads
        parameters.use_jinja = True
        self._server = xllamacpp.Server(parameters)

    def calls(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], max_tokens: int
    ) -> tuple[list[ToolCall], str]:
        body = {"messages": messages, "tools": tools, "temperature": 0, "max_tokens": max_tokens}
        message = self._post("/v1/chat/completions", body)["choices"][0]["message"]
        calls = []
        for each in message.get("tool_calls") or ():
            try:
                arguments = parse_arguments(each["function"]["arguments"] or "{}")
            except ValueError:
                arguments = {}
            calls.append(ToolCall(each["function"]["name"], arguments))
        return calls, message.get("content") or ""

    def greedy_text(self, prompt: Sequence[int], max_tokens: int) -> str:
        body = {"prompt": list(prompt), "temperature": 0, "n_predict": max_tokens}
        return str(self._post("/completion", body)["content"])

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(
            self._server.listening_address + path,
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)
