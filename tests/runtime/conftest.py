from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.model import ModelDirectory, Tokenizer, open_model_directory


@pytest.fixture(scope="session")
def nano_directory() -> ModelDirectory:
    return open_model_directory("nano")


@pytest.fixture(scope="session")
def tokenizer(nano_directory: ModelDirectory) -> Tokenizer:
    return Tokenizer(nano_directory, vocabulary_size=2048)


@pytest.fixture(scope="session")
def weather_tool() -> dict[str, Any]:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "Current weather in a city.", "parameters": city}
    return {"type": "function", "function": function}


@pytest.fixture
def open_runtime() -> Iterator[Callable[..., LocalRuntime]]:
    """Opens exact (f32) single-threaded runtimes; closes them after the test and checks every block."""
    opened: list[LocalRuntime] = []

    def open_one(model: str = "nano", **settings: Any) -> LocalRuntime:
        exact = {"inference_precision": "f32", "kv_cache_precision": "f32", "threads": 1}
        runtime = LocalRuntime.open(model, RuntimeConfig(**{"memory_bytes": 32 * 2**20} | exact | settings))
        opened.append(runtime)
        return runtime

    yield open_one
    for runtime in opened:
        runtime.close()
        runtime._engine._scheduler.check_integrity()


@pytest.fixture
def runtime(open_runtime: Callable[..., LocalRuntime]) -> LocalRuntime:
    return open_runtime()
