"""How long a model takes to its first token, and the memory it takes: each opening in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from ..common.machine import peak_memory_bytes
from ..common.openvino_genai import continuous_batching
from ..common.process import SideProcess
from .runtime_side import use_cache

CACHE_GIB = 1
"""Size of the KV cache on both sides."""
LONG_TOKENS = 16
_SHORT = [{"role": "user", "content": "Say hello."}]
_LONG = [{"role": "user", "content": "Summarize: " + "the quick brown fox jumps over the lazy dog. " * 40}]
"""About 400 tokens."""
_MIB = 2**20


@dataclass(frozen=True)
class Opening:
    """Seconds from the start of opening to the first token, and the process's peak memory in MiB.

    The peak is that after a prompt of some hundred tokens and :data:`LONG_TOKENS` tokens of answer.
    """

    seconds: float
    peak_mib: float
    profile_s: float = 0.0
    """Seconds, of the time to the first token, in which the profile was measured."""
    weights_mib: float = 0.0
    """Size of the converted weights, where this is measured."""


@dataclass(frozen=True)
class Openings:
    """The first opening, with conversion and profile; later ones; and OpenVINO GenAI's of the same model."""

    first: Opening
    second: Opening
    genai: Opening


def measure_openings(model: str, cache: str, repeats: int, progress: Callable[[str], None]) -> Openings:
    """Open ``model`` with the empty folder ``cache``, then ``repeats`` times on each side in turn."""
    progress(f"opening {model} for the first time")
    first = _in_process(_Ours, model, cache)
    ours, genai = [], []
    for number in range(1, repeats + 1):
        progress(f"opening {model} again and in OpenVINO GenAI, {number} of {repeats}")
        ours.append(_in_process(_Ours, model, cache))
        genai.append(_in_process(_GenAI, model, cache))
    return Openings(first, _median(ours), _median(genai))


def _median(openings: list[Opening]) -> Opening:
    return Opening(median(each.seconds for each in openings), median(each.peak_mib for each in openings))


def _in_process(side: type, model: str, cache: str) -> Opening:
    with SideProcess(side, cache) as process:
        result: Opening = process.call("open", model)
    return result


class _Side:
    def __init__(self, cache: str) -> None:
        use_cache(cache)

    def open(self, model: str) -> Opening:
        """Open the model, write one token, then a longer answer."""
        began = time.perf_counter()
        generate = self._opened(model)
        generate(_SHORT, 1)
        seconds = time.perf_counter() - began
        generate(_LONG, LONG_TOKENS)
        return self._result(Opening(seconds, (peak_memory_bytes() or 0) / _MIB), model)

    def _result(self, opening: Opening, model: str) -> Opening:
        return opening

    def _opened(self, model: str) -> Callable[[list[dict[str, str]], int], None]:
        """Open the model and return what answers messages with a number of tokens."""
        raise NotImplementedError


class _Ours(_Side):
    def _opened(self, model: str) -> Callable[[list[dict[str, str]], int], None]:
        from agentrt.runtime import LocalRuntime, RuntimeConfig

        self._steps: list[tuple[str, float]] = []
        runtime = LocalRuntime.open(
            model,
            RuntimeConfig(memory_bytes=CACHE_GIB * 2**30),
            on_step=lambda step: self._steps.append((step.name, time.perf_counter())),
        )

        def generate(messages: list[dict[str, str]], tokens: int) -> None:
            runtime.generate(messages, max_tokens=tokens, ignore_eos=True)

        return generate

    def _result(self, opening: Opening, model: str) -> Opening:
        from agentrt.runtime.model.directory import open_model_directory

        weights = open_model_directory(model).graph.with_suffix(".bin").stat().st_size
        ends = [end for _, end in self._steps[1:]] + [self._steps[-1][1]]
        measured = (
            end - begin
            for (name, begin), end in zip(self._steps, ends, strict=True)
            if name.startswith("measuring")
        )
        return replace(opening, profile_s=sum(measured), weights_mib=weights / _MIB)


class _GenAI(_Side):
    """OpenVINO GenAI's continuous batching on the converted model."""

    def _opened(self, model: str) -> Callable[[list[dict[str, str]], int], None]:
        import openvino_genai

        from agentrt.runtime.model.directory import open_model_directory

        directory: Path = open_model_directory(model).path
        pipeline = openvino_genai.ContinuousBatchingPipeline(
            str(directory), continuous_batching(CACHE_GIB), "CPU"
        )

        def generate(messages: list[dict[str, str]], tokens: int) -> None:
            config = openvino_genai.GenerationConfig()
            config.max_new_tokens = tokens
            config.ignore_eos = True
            prompt = pipeline.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True)
            pipeline.generate([prompt], [config])

        return generate
