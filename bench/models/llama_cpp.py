"""llama.cpp's server on the same GGUF file, in its own process (the package ``xllamacpp``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agentrt.calls import ToolCall, parse_arguments

from ..common.llama_cpp import LlamaCppServer
from ..common.process import SideProcess

_FORCED = 1000.0
"""A bias beyond the range of logits."""


class LlamaCpp(SideProcess):
    """llama.cpp's server; a context manager."""

    def __init__(self, model: str, threads: int, context: int, sequences: int = 1) -> None:
        """Start the server with ``model``, a GGUF file, on ``threads`` threads.

        It holds ``sequences`` sequences of ``context`` tokens each.
        """
        super().__init__(_Server, model, threads, context, sequences)

    def calls(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], max_tokens: int
    ) -> tuple[list[ToolCall], str]:
        """Return the calls that the server finds in its greedy answer, and the answer's other text."""
        found: tuple[list[ToolCall], str] = self.call("calls", messages, tools, max_tokens)
        return found

    def log_probabilities(self, windows: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-probability of each token of each window after those before it, without the first.

        The server tells only those of tokens that it samples. So each token is a request of its own, in which
        a bias makes the server sample that token; it tells the log-probabilities before biases.
        """
        found: list[list[float]] = self.call("log_probabilities", windows)
        return found


class _Server:
    def __init__(self, model: str, threads: int, context: int, sequences: int) -> None:
        def use_chat_template(parameters: Any) -> None:
            parameters.use_jinja = True

        self._server = LlamaCppServer(
            model, threads, context * sequences, sequences=sequences, configure=use_chat_template
        )

    def calls(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], max_tokens: int
    ) -> tuple[list[ToolCall], str]:
        body = {"messages": messages, "tools": tools, "temperature": 0, "max_tokens": max_tokens}
        message = self._server.post("/v1/chat/completions", body)["choices"][0]["message"]
        calls = []
        for each in message.get("tool_calls") or ():
            try:
                arguments = parse_arguments(each["function"]["arguments"])
            except ValueError:
                arguments = {}
            calls.append(ToolCall(each["function"]["name"], arguments))
        return calls, message.get("content") or ""

    def log_probabilities(self, windows: Sequence[Sequence[int]]) -> list[list[float]]:
        # All windows at once: the server decodes them in one batch.
        with ThreadPoolExecutor(len(windows)) as pool:
            return list(pool.map(self._log_probabilities_in_slot, range(len(windows)), windows))

    def _log_probabilities_in_slot(self, slot: int, tokens: Sequence[int]) -> list[float]:
        return [self._log_probability(slot, tokens[:at], tokens[at]) for at in range(1, len(tokens))]

    def _log_probability(self, slot: int, before: Sequence[int], token: int) -> float:
        body = {
            "prompt": list(before),
            "id_slot": slot,
            "cache_prompt": True,
            "n_predict": 1,
            "n_probs": 1,
            "temperature": 0,
            "logit_bias": [[token, _FORCED]],
        }
        [sampled] = self._server.post("/completion", body)["completion_probabilities"]
        if sampled["id"] != token:
            raise ValueError(f"llama.cpp sampled token {sampled['id']} and not {token}, which was forced.")
        return float(sampled["logprob"])
