from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.forward import ForwardPass
from agentrt.runtime.model import ModelDirectory, Tokenizer, open_model_directory
from agentrt.runtime.scheduler import Slice


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


class Gate:
    """Lets the engine make one step at a time, so that a test can act between two of them."""

    def __init__(self, forward: ForwardPass, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[list[Slice]] = []
        self._run = forward.run
        self._arrived = threading.Semaphore(0)
        self._go = threading.Semaphore(0)
        self._open = False
        monkeypatch.setattr(forward, "run", self._wait_and_run)

    def _wait_and_run(self, step: list[Slice]) -> Any:
        self.steps.append(step)
        self._arrived.release()
        if not self._open:
            self._go.acquire()
        return self._run(step)

    def arrived(self) -> list[Slice]:
        """Wait until the engine stands before its next step."""
        assert self._arrived.acquire(timeout=30)
        return self.steps[-1]

    def step(self) -> list[Slice]:
        """Let it make that step and wait until it stands before the one after."""
        self._go.release()
        return self.arrived()

    def allow(self, steps: int) -> None:
        """Let it make so many steps more."""
        for _ in range(steps):
            self._go.release()

    def open(self) -> None:
        """Stop nobody any more."""
        self._open = True
        self._go.release()


@pytest.fixture
def gate(runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(runtime._engine._forward, monkeypatch)
    yield gate
    gate.open()
