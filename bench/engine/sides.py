"""The sides of the engine bench, each in its own process: agentrt's runtime, openvino_genai, llama.cpp."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ..common.llama_cpp import LlamaCppServer, share_one_cache
from ..common.machine import describe_machine, peak_memory_bytes
from ..common.openvino_genai import continuous_batching
from ..common.process import SideProcess
from .rests import rest_between_steps

if TYPE_CHECKING:
    from agentrt.runtime import RuntimeConfig

Messages: TypeAlias = list[dict[str, Any]]
SideName: TypeAlias = Literal["agentrt", "openvino_genai", "openvino_genai_batching", "llama_cpp"]
"""``openvino_genai`` is LLMPipeline with its defaults, ``openvino_genai_batching`` the same with
:func:`continuous_batching`, ``llama_cpp`` llama.cpp's server, which opens a GGUF file and has precisions of
its own."""

_LLAMA_CPP_SEQUENCES: Final = 16
_GENAI_BLOCK_TOKENS: Final = 32
"""Of openvino_genai's KV blocks on a CPU."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A KV cache of one size for all sides."""

    tokens: int
    bytes: int
    """Of as many tokens, as agentrt stores them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of all sides; None leaves the choice to OpenVINO."""

    threads: int | None = None
    inference_precision: Literal["f32"] | None = None
    kv_cache_precision: Literal["f32"] | None = None
    dynamic_quantization_group_size: int | None = None
    cache: Cache | None = None
    """The KV cache; None is each side's own. LLMPipeline grows its own as it needs it."""
    profile_folder: Path | None = None
    """Where agentrt looks for the model's profile."""

    def runtime_config(self) -> RuntimeConfig:
        """As a runtime's configuration."""
        from agentrt.runtime import RuntimeConfig

        config = RuntimeConfig(
            platform="cpu",  # where the other side is, too
            threads=self.threads,
            inference_precision=self.inference_precision,
            kv_cache_precision=self.kv_cache_precision,
            dynamic_quantization_group_size=self.dynamic_quantization_group_size,
            profile_folder=self.profile_folder,
            constrain_tool_calls=False,  # the other side says what the model says, valid or not
            tool_prompt="native",  # the other side has the model's chat template only
        )
        if self.cache is None:
            return config
        return config.model_copy(update={"memory_bytes": self.cache.bytes})

    def device_properties(self) -> dict[str, Any]:
        """As OpenVINO properties."""
        chosen = {
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": self.inference_precision,
            "KV_CACHE_PRECISION": self.kv_cache_precision,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": self.dynamic_quantization_group_size,
        }
        return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed call. Seconds."""

    prompt_tokens: int
    new_tokens: int
    total_s: float
    """From the call to its return: template, tokenizer, model, detokenizer."""
    decode_s: float
    """From the first token to the last, by the side's own clock."""


class _AgentRT:
    def __init__(self, model: str, settings: Settings) -> None:
        from agentrt.runtime import LocalRuntime

        self._runtime = LocalRuntime.open(model, settings.runtime_config())

    def takes_tools(self) -> bool:
        return self._runtime.call_format is not None

    def greedy_tokens(self, messages: Messages, tools: list[dict[str, Any]] | None, most: int) -> list[int]:
        return list(self._runtime.generate(messages, tools=tools, max_tokens=most).token_ids)

    def time_one(self, prompt: str, new_tokens: int) -> Timed:
        begun = time.perf_counter()
        made = self._runtime.generate(
            [{"role": "user", "content": prompt}], max_tokens=new_tokens, ignore_eos=True
        )
        total = time.perf_counter() - begun
        decode = made.timing.total_s - made.timing.time_to_first_token_s
        return Timed(made.usage.prompt_tokens, made.usage.completion_tokens, total, decode)

    def time_batch(self, prompts: list[str], new_tokens: int) -> float:
        async def all_at_once() -> None:
            await asyncio.gather(
                *(
                    self._runtime.agenerate(
                        [{"role": "user", "content": prompt}], max_tokens=new_tokens, ignore_eos=True
                    )
                    for prompt in prompts
                )
            )

        begun = time.perf_counter()
        asyncio.run(all_at_once())
        return time.perf_counter() - begun

    def rest_between_steps(self, prompt: str, new_tokens: int) -> float:
        with self._runtime.record_trace() as trace:
            self.time_one(prompt, new_tokens)
        return rest_between_steps(trace.kernels)

    def peak_memory(self) -> int | None:
        return peak_memory_bytes()


class _OpenVINOGenAI:
    def __init__(self, model: str, settings: Settings) -> None:
        import openvino_genai

        self._genai = openvino_genai
        options = settings.device_properties() | self._scheduling(settings)
        self._pipeline = openvino_genai.LLMPipeline(model, "CPU", **options)

    def _scheduling(self, settings: Settings) -> dict[str, Any]:
        return {}

    def greedy_tokens(self, messages: Messages, tools: list[dict[str, Any]] | None, most: int) -> list[int]:
        tokenizer = self._pipeline.get_tokenizer()
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tools=tools)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        config = self._config(most)
        config.ignore_eos = False
        config.set_eos_token_id(tokenizer.get_eos_token_id())
        return list(self._pipeline.generate(encoded, config).tokens[0])

    def time_one(self, prompt: str, new_tokens: int) -> Timed:
        config = self._config(new_tokens)
        begun = time.perf_counter()
        metrics = self._pipeline.generate([prompt], config).perf_metrics
        total = time.perf_counter() - begun
        decode = (metrics.get_generate_duration().mean - metrics.get_ttft().mean) / 1000
        return Timed(metrics.get_num_input_tokens(), metrics.get_num_generated_tokens(), total, decode)

    def time_batch(self, prompts: list[str], new_tokens: int) -> float:
        begun = time.perf_counter()
        self._pipeline.generate(prompts, self._config(new_tokens))
        return time.perf_counter() - begun

    def peak_memory(self) -> int | None:
        return peak_memory_bytes()

    def _config(self, new_tokens: int) -> Any:
        config = self._genai.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.do_sample = False
        config.ignore_eos = True
        return config


class _OpenVINOGenAIBatching(_OpenVINOGenAI):
    def _scheduling(self, settings: Settings) -> dict[str, Any]:
        scheduler = continuous_batching(0)
        if settings.cache is not None:
            scheduler.num_kv_blocks = -(-settings.cache.tokens // _GENAI_BLOCK_TOKENS)
        return {"scheduler_config": scheduler}


class _LlamaCpp:
    def __init__(self, model: str, settings: Settings) -> None:
        def configure(parameters: Any) -> None:
            share_one_cache(parameters)
            parameters.cache_ram_mib = 0  # no prompt occurs twice

        assert settings.cache is not None, "llama.cpp's server allocates its cache when it starts"
        self._server = LlamaCppServer(
            model,
            settings.threads or describe_machine().usable_cores,
            settings.cache.tokens,
            sequences=_LLAMA_CPP_SEQUENCES,
            configure=configure,
        )

    def time_one(self, prompt: str, new_tokens: int) -> Timed:
        begun = time.perf_counter()
        made = self._answer(prompt, new_tokens)
        total = time.perf_counter() - begun
        usage = made["usage"]
        decode = made["timings"]["predicted_ms"] / 1000
        return Timed(usage["prompt_tokens"], usage["completion_tokens"], total, decode)

    def time_batch(self, prompts: list[str], new_tokens: int) -> float:
        with ThreadPoolExecutor(len(prompts)) as threads:
            begun = time.perf_counter()
            made = list(threads.map(self._answer, prompts, [new_tokens] * len(prompts)))
            total = time.perf_counter() - begun
        assert all(each["usage"]["completion_tokens"] == new_tokens for each in made)
        return total

    def peak_memory(self) -> int | None:
        return peak_memory_bytes()

    def _answer(self, prompt: str, new_tokens: int) -> Any:
        body = {
            "messages": [{"role": "user", "content": prompt}], "max_tokens": new_tokens, "ignore_eos": True,
            "temperature": 0, "cache_prompt": False,
        }  # fmt: skip
        return self._server.post("/v1/chat/completions", body)


_SIDES: dict[SideName, type[_AgentRT | _OpenVINOGenAI | _LlamaCpp]] = {
    "agentrt": _AgentRT,
    "openvino_genai": _OpenVINOGenAI,
    "openvino_genai_batching": _OpenVINOGenAIBatching,
    "llama_cpp": _LlamaCpp,
}


class EngineSide(SideProcess):
    """One side in its own process."""

    def __init__(self, name: SideName, model: str, settings: Settings) -> None:
        """Start the process and load the model, for llama.cpp a GGUF file; returns when it is ready."""
        super().__init__(_SIDES[name], model, settings)

    def takes_tools(self) -> bool:
        """Whether the model's chat template takes tools; agentrt's side only."""
        return bool(self.call("takes_tools"))

    def greedy_tokens(self, messages: Messages, tools: list[dict[str, Any]] | None, most: int) -> list[int]:
        """The tokens of the greedy answer, the end token included."""
        return list(self.call("greedy_tokens", messages, tools, most))

    def time_one(self, prompt: str, new_tokens: int) -> Timed:
        """Time one answer of exactly ``new_tokens`` tokens."""
        timed = self.call("time_one", prompt, new_tokens)
        assert isinstance(timed, Timed)
        return timed

    def time_batch(self, prompts: Sequence[str], new_tokens: int) -> float:
        """Seconds for answers of exactly ``new_tokens`` tokens to all prompts at once."""
        return float(self.call("time_batch", list(prompts), new_tokens))

    def rest_between_steps(self, prompt: str, new_tokens: int) -> float:
        """Median seconds of a decode step in which no kernel runs; agentrt's side only."""
        return float(self.call("rest_between_steps", prompt, new_tokens))

    def peak_memory(self) -> int | None:
        """Peak resident bytes of its process; None where the system does not report it."""
        peak = self.call("peak_memory")
        return None if peak is None else int(peak)
