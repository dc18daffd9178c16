"""OpenVINO GenAI: its pipeline for one answer after the other, and its continuous batching."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ..common.machine import peak_memory_bytes
from .side import Answer, Request, Run

BLOCK_TOKENS: Final = 32
"""Of its KV blocks on a CPU."""
_LOOKUP_TOKENS, _LOOKUP_NGRAM = 5, 3
"""Of prompt lookup, as its documentation has them."""
_DRAFT_MODEL_TOKENS: Final = 4


def continuous_batching(cache_gib: int, blocks: int | None = None) -> Any:
    """Return a ``SchedulerConfig``: at most 16 sequences, chunked prefill in chunks of 256 tokens.

    A cache of 0 GiB grows as it is needed, or has this number of ``blocks``.
    """
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = cache_gib
    scheduler.max_num_batched_tokens = 256
    scheduler.dynamic_split_fuse = True
    scheduler.max_num_seqs = 16
    if blocks is not None:
        scheduler.num_kv_blocks = blocks
    return scheduler


def device_properties(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what these settings of :class:`RuntimeConfig` are to OpenVINO; its defaults are left alone."""
    from agentrt.runtime import RuntimeConfig

    properties = RuntimeConfig(**settings).device_properties()
    return {name: value for name, value in properties.items() if name != "PERFORMANCE_HINT"}


def groups_of_agentrt(model: str) -> dict[str, Any]:
    """Return the property by which OpenVINO has the activation groups that agentrt chooses for ``model``.

    It is empty where agentrt leaves OpenVINO's default alone.
    """
    from agentrt.runtime.model.directory import open_model_directory
    from agentrt.runtime.model.dynamic_quantization import quantization_properties
    from agentrt.runtime.model.openvino_core import openvino_core

    graph = openvino_core().read_model(open_model_directory(model).graph)
    return dict(quantization_properties([graph], "CPU", {}))


class OpenVINOGenAI:
    """``LLMPipeline``; a :class:`Side` that answers all requests at once, whenever they arrive."""

    context_length = 2**20

    def __init__(
        self,
        model: str,
        settings: Mapping[str, Any] = MappingProxyType({}),
        cache_tokens: int | None = None,
        *,
        prompt_lookup: bool = False,
        draft: str | None = None,
    ) -> None:
        """Open the OpenVINO directory ``model`` with settings of :class:`RuntimeConfig`.

        With ``cache_tokens`` it is over continuous batching, with a KV cache for so many. It drafts by
        ``prompt_lookup``, or by the model in the directory ``draft``.
        """
        import openvino_genai

        self._genai = openvino_genai
        options: dict[str, Any] = device_properties(settings)
        if cache_tokens is not None:
            options["scheduler_config"] = continuous_batching(0, -(-cache_tokens // BLOCK_TOKENS))
        self._assistant: dict[str, int] = {}
        if prompt_lookup:
            options["prompt_lookup"] = True
            self._assistant = {"num_assistant_tokens": _LOOKUP_TOKENS, "max_ngram_size": _LOOKUP_NGRAM}
        if draft is not None:
            options["draft_model"] = openvino_genai.draft_model(draft, "CPU")
            self._assistant = {"num_assistant_tokens": _DRAFT_MODEL_TOKENS}
        self._pipeline = openvino_genai.LLMPipeline(model, "CPU", **options)
        self._tokenizer = self._pipeline.get_tokenizer()

    def generate(self, request: Request) -> Answer:
        config = self._config(request)
        begun = time.perf_counter()
        plain = isinstance(request.prompt, str)
        made = self._pipeline.generate([request.prompt] if plain else self._encoded(request), config)
        total_s = time.perf_counter() - begun
        metrics, tokens = made.perf_metrics, () if plain else tuple(made.tokens[0])
        decode_s = (metrics.get_generate_duration().mean - metrics.get_ttft().mean) / 1000
        return Answer(
            request,
            metrics.get_num_input_tokens(),
            metrics.get_num_generated_tokens(),
            total_s - decode_s,
            total_s,
            decode_s,
            tokens,
            made.texts[0] if plain else self._tokenizer.decode(list(tokens)),
        )

    def stream(self, requests: Sequence[Request]) -> Run:
        """See :meth:`Side.stream`. It does not say when each answer ended."""
        begun = time.perf_counter()
        self._pipeline.generate([request.prompt for request in requests], self._config(requests[0]))
        elapsed_s = time.perf_counter() - begun
        answers = (Answer(each, 0, each.max_tokens, elapsed_s, elapsed_s) for each in requests)
        return Run(tuple(answers), elapsed_s)

    def peak_memory(self) -> int | None:
        return peak_memory_bytes()

    def close(self) -> None:
        del self._pipeline

    def _encoded(self, request: Request) -> Any:
        if (token_ids := request.token_ids) is not None:
            import numpy as np
            import openvino

            ids, mask = np.array([token_ids], np.int64), np.ones((1, len(token_ids)), np.int64)
            return self._genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(mask))
        return encode(self._tokenizer, request)

    def _config(self, request: Request) -> Any:
        config = generation_config(request)
        if not request.ignore_eos:
            config.set_eos_token_id(self._tokenizer.get_eos_token_id())
            config.stop_token_ids = self._pipeline.get_generation_config().stop_token_ids
        for name, value in self._assistant.items():
            setattr(config, name, value)
        return config


def encode(tokenizer: Any, request: Request) -> Any:
    """Return the tokens of a request's messages, in the model's chat template."""
    text = tokenizer.apply_chat_template(request.messages, add_generation_prompt=True, tools=request.tools)
    return tokenizer.encode(text, add_special_tokens=False)


def generation_config(request: Request) -> Any:
    """Return the ``GenerationConfig`` of a request."""
    import openvino_genai

    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = request.max_tokens
    config.ignore_eos = request.ignore_eos
    config.do_sample = False
    return config
