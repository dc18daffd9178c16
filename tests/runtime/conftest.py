from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeAlias

import pytest

from agentrt.runtime import EngineGroup, EngineStatistics, LocalRuntime, RuntimeConfig
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.model.directory import ModelDirectory, open_model_directory
from agentrt.runtime.model.tokenizer import Tokenizer
from agentrt.runtime.scheduler.batch import ScheduledChunk
from agentrt.runtime.xpu.loading import LoadedModel, load_model
from tests.patience import until

OpenRuntime: TypeAlias = Callable[..., LocalRuntime]
"""Opens nano with other settings: :func:`open_runtime`."""


@pytest.fixture(scope="session")
def nano_directory() -> ModelDirectory:
    return open_model_directory("nano")


@pytest.fixture(scope="session")
def load(nano_directory: ModelDirectory) -> Callable[..., LoadedModel]:
    """Load nano onto a platform, f32 throughout and one thread, without an engine."""

    def load_one(platform: str = "cpu", quantum_s: float = 0.025, **properties: Any) -> LoadedModel:
        exact = {
            "INFERENCE_PRECISION_HINT": "f32",
            "KV_CACHE_PRECISION": "f32",
            "INFERENCE_NUM_THREADS": 1,
        }
        return load_model(
            nano_directory,
            platform=platform,
            properties=exact | properties,
            max_chunk_tokens=256,
            quantum_s=quantum_s,
        )

    return load_one


@pytest.fixture(scope="session")
def tokenizer(nano_directory: ModelDirectory) -> Tokenizer:
    return Tokenizer(nano_directory, vocabulary_size=2048)


@pytest.fixture(scope="session")
def weather_tool() -> dict[str, Any]:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "Current weather in a city.", "parameters": city}
    return {"type": "function", "function": function}


def open_exact(group: EngineGroup | None = None, **settings: Any) -> LocalRuntime:
    """Open nano as reference: f32, one thread, and one kernel per batch, also on a busy machine."""
    exact = {"inference_precision": "f32", "kv_cache_precision": "f32", "threads": 1, "quantum_s": 0.1}
    config = RuntimeConfig(**{"memory_bytes": 32 * 2**20} | exact | settings)
    return LocalRuntime.open("nano", config, group=group)


@pytest.fixture
def open_runtime() -> Iterator[OpenRuntime]:
    """Open runtimes for one test; afterwards close them and check that all blocks are free."""
    opened: list[LocalRuntime] = []

    def open_one(**settings: Any) -> LocalRuntime:
        opened.append(open_exact(**settings))
        return opened[-1]

    yield open_one
    for runtime in opened:
        runtime.close()
        runtime._engine._scheduler.check_integrity()


@pytest.fixture(scope="session")
def shared_runtime() -> Iterator[LocalRuntime]:
    with open_exact() as runtime:
        yield runtime


@pytest.fixture
def runtime(shared_runtime: LocalRuntime) -> Iterator[LocalRuntime]:
    """A runtime shared by all tests, without contexts, checked to be idle with all blocks free after each."""
    _delete_contexts(shared_runtime)
    yield shared_runtime
    shared_runtime.generate(
        [{"role": "user", "content": "x"}], max_tokens=1
    )  # runs after all earlier commands
    until(lambda: not _unfinished(shared_runtime))  # a server cancels when it sees that a client has left
    scheduler = shared_runtime._engine._scheduler
    while scheduler.block_manager.next_expiry() < math.inf:
        scheduler.block_manager.expire(math.inf)  # blocks kept for next turns
    scheduler.check_integrity()
    statistics = shared_runtime.statistics()
    assert statistics.free_blocks == statistics.blocks
    _delete_contexts(shared_runtime)


def _unfinished(runtime: LocalRuntime) -> int:
    engine = runtime.statistics().engine
    return engine.running + engine.waiting


def _delete_contexts(runtime: LocalRuntime) -> None:
    """Delete what the apps of a test have made, and the responses that were stored for them."""
    for app in list(runtime.context_table._apps):
        for context in runtime.context_table.contexts(app):
            runtime.context_table.delete(app, context.id)


@pytest.fixture
def before(runtime: LocalRuntime) -> EngineStatistics:
    """The counters of the shared runtime at the beginning of the test."""
    return runtime.statistics().engine


def executed_lines(call: Callable[[], object], folder: str = "") -> int:
    """Return the number of lines, of files whose paths begin with ``folder``, that a call executes."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(folder):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


class Gate:
    """Stops the engine before each kernel, so that a test can act between two kernels."""

    def __init__(self, runtime: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[list[ScheduledChunk]] = []
        xpu = runtime._engine._platform.xpus[Role.DECODE]
        self.run = xpu.run
        self._scheduler = runtime._engine._scheduler
        self._arrived = threading.Semaphore(0)
        self._go = threading.Semaphore(0)
        self._open = False
        monkeypatch.setattr(xpu, "run", self._wait_and_run)

    def _wait_and_run(self, *arguments: Any, **how: Any) -> Any:
        self.steps.append(self._scheduler.kernel_on(Role.DECODE).batch.chunks)
        self._arrived.release()
        if not self._open and not self._go.acquire(timeout=90):
            self._open = True  # a test that failed may wait for its requests before its fixtures end
        return self.run(*arguments, **how)

    def arrived(self) -> list[ScheduledChunk]:
        """Wait until the engine stops before its next kernel; return the chunks of the batch."""
        assert self._arrived.acquire(timeout=30)
        return self.steps[-1]

    def step(self) -> list[ScheduledChunk]:
        """Run that kernel and wait until the engine stops before the next one."""
        self._go.release()
        return self.arrived()

    def allow(self, steps: int) -> None:
        """Let the engine run ``steps`` kernels more."""
        for _ in range(steps):
            self._go.release()

    def open(self) -> None:
        """Let the engine run without stops."""
        self._open = True
        self._go.release()


Hold: TypeAlias = Callable[[LocalRuntime], Gate]


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Put a gate before the kernels of a runtime, until the test ends."""
    gates: list[Gate] = []
    with pytest.MonkeyPatch.context() as patch:

        def hold_one(runtime: LocalRuntime) -> Gate:
            gates.append(Gate(runtime, patch))
            return gates[-1]

        yield hold_one
        for gate in gates:
            gate.open()


@pytest.fixture
def gate(runtime: LocalRuntime, hold: Hold) -> Gate:
    """A gate before the kernels of the shared runtime."""
    return hold(runtime)


@pytest.fixture
def whole_drafts() -> Iterator[None]:
    """Verify whole drafts, whatever a forward pass takes on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentrt.runtime.scheduler.draft_lengths.DraftLengths.shorten", lambda *_: None)
        yield
