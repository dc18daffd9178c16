"""How long a model takes to its first token, and the memory it takes: each opening in its own process."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ..common.machine import peak_memory_bytes
from ..common.openvino_genai import continuous_batching
from ..common.process import SideProcess

_PROMPT = [{"role": "user", "content": "Say hello."}]
_CACHE_BYTES = 2**30
_MIB = 2**20


@dataclass(frozen=True)
class Opening:
    """Seconds from the start of opening to the first token, and the process's peak memory in MiB."""

    seconds: float
    peak_mib: float


@dataclass(frozen=True)
class Openings:
    """The first opening, with conversion and profile; the second; and OpenVINO GenAI's of the same model."""

    first: Opening
    second: Opening
    genai: Opening


def measure_openings(model: str) -> Openings:
    """Open ``model`` with an empty cache folder, again, and with OpenVINO GenAI."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        first, second = (_in_process(_Ours, model, cache) for _ in range(2))
        genai = _in_process(_GenAI, model, cache)
    return Openings(first, second, genai)


def _in_process(side: type, model: str, cache: str) -> Opening:
    with SideProcess(side, cache) as process:
        result: Opening = process.call("open", model)
    return result


class _Side:
    def __init__(self, cache: str) -> None:
        for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            os.environ[variable] = cache

    def open(self, model: str) -> Opening:
        """Open the model and write one token."""
        began = time.perf_counter()
        self._first_token(model)
        return Opening(time.perf_counter() - began, (peak_memory_bytes() or 0) / _MIB)

    def _first_token(self, model: str) -> None:
        raise NotImplementedError


class _Ours(_Side):
    def _first_token(self, model: str) -> None:
        from agentrt.runtime import LocalRuntime, RuntimeConfig

        with LocalRuntime.open(model, RuntimeConfig(memory_bytes=_CACHE_BYTES)) as runtime:
            runtime.generate(_PROMPT, max_tokens=1)


class _GenAI(_Side):
    """OpenVINO GenAI's continuous batching on the converted model, with a cache of the same size."""

    def _first_token(self, model: str) -> None:
        import openvino_genai

        from agentrt.runtime.model.directory import open_model_directory

        directory: Path = open_model_directory(model).path
        pipeline = openvino_genai.ContinuousBatchingPipeline(
            str(directory), continuous_batching(_CACHE_BYTES // 2**30), "CPU"
        )
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = 1
        pipeline.generate(["Say hello."], [config])
