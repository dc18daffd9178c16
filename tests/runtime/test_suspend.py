"""Contexts survive closing a runtime and opening it again in the same process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from agentrt.errors import RuntimeClosedError
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.heg.granularity import choose_granularity
from agentrt.runtime.heg.graph import ExecutionGraph
from agentrt.runtime.kv.saved_contexts import SavedContexts
from agentrt.runtime.model.directory import ModelDirectory
from tests.hypothesis_profiles import first_of
from tests.runtime.conftest import OpenRuntime
from tests.runtime.test_prefix_reuse import SYSTEM, open_with

FIRST = [SYSTEM, {"role": "user", "content": "What is the weather in Oslo?"}]

Suspend: TypeAlias = Callable[[LocalRuntime], SavedContexts]


@pytest.fixture
def suspend() -> Iterator[Suspend]:
    """Suspend runtimes; afterwards delete their contexts."""
    saved: list[SavedContexts] = []

    def suspend_one(runtime: LocalRuntime) -> SavedContexts:
        saved.append(runtime.suspend())
        return saved[-1]

    yield suspend_one
    for contexts in saved:
        contexts.close()


def next_turn(generation: Any) -> list[Any]:
    answer = {"role": "assistant", "content": generation.text}
    return [*FIRST, answer, {"role": "user", "content": "And in Bergen?"}]


@pytest.mark.parametrize("precision", first_of(["f32", "u8"]))
def test_the_next_turn_finds_its_blocks(open_runtime: OpenRuntime, suspend: Suspend, precision: str) -> None:
    settings = {"kv_cache_precision": precision}
    staying = open_runtime(**settings)
    first = staying.generate(FIRST, max_tokens=40, app="notes")
    expected = staying.generate(next_turn(first), max_tokens=40, app="notes")
    assert expected.usage.cached_tokens > 0

    runtime = open_runtime(**settings)
    runtime.generate(FIRST, max_tokens=40, app="notes")
    with_blocks = runtime.statistics()
    contexts = suspend(runtime)
    with pytest.raises(RuntimeClosedError):
        runtime.generate(FIRST)
    again = LocalRuntime.open("nano", runtime.config, contexts=contexts)
    with again:
        assert again.statistics().cached_blocks == with_blocks.cached_blocks > 0
        other_app = again.generate(next_turn(first), max_tokens=40, app="mail")
        assert other_app.usage.cached_tokens == 0
        resumed = again.generate(next_turn(first), max_tokens=40, app="notes")
        assert resumed.usage.cached_tokens == expected.usage.cached_tokens
        assert resumed.token_ids == expected.token_ids
        again._engine._scheduler.check_integrity()


@pytest.mark.check
def test_the_least_recently_used_context_is_still_the_first_to_go(
    open_runtime: OpenRuntime, suspend: Suspend
) -> None:
    runtime = open_with(open_runtime, 24)
    for app in ("old", "new"):
        runtime.generate(FIRST, max_tokens=2, app=app)
    with LocalRuntime.open("nano", runtime.config, contexts=suspend(runtime)) as again:
        free = again.statistics().free_blocks - again.statistics().cached_blocks
        long = [{"role": "user", "content": "x " * 32 * (free + 1)}]
        again.generate(long, max_tokens=1, app="long")
        assert again.generate(FIRST, max_tokens=1, app="new").usage.cached_tokens > 0


@pytest.mark.check
def test_contexts_held_for_a_next_turn_are_saved(
    open_runtime: OpenRuntime, suspend: Suspend, weather_tool: Any
) -> None:
    runtime = open_runtime()
    question = [{"role": "user", "content": "What is the weather in Oslo?"}]
    called = runtime.generate(question, tools=[weather_tool], max_tokens=80)
    assert called.tool_calls
    contexts = suspend(runtime)
    assert contexts.block_hashes
    with LocalRuntime.open("nano", runtime.config, contexts=contexts) as again:
        assert again.generate(question, tools=[weather_tool], max_tokens=80).usage.cached_tokens > 0


@pytest.mark.check
def test_contexts_are_found_however_the_model_is_cut(
    open_runtime: OpenRuntime, suspend: Suspend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile that was refined while the model served may have it cut elsewhere when it is opened again."""
    runtime = open_runtime()
    first = runtime.generate(FIRST, max_tokens=40)
    expected = runtime.generate(next_turn(first), max_tokens=40)
    bounds = runtime._engine._scheduler._graph.bounds
    contexts = suspend(runtime)

    def into_layers(*arguments: Any, **options: Any) -> ExecutionGraph:
        return choose_granularity(*arguments, **options | {"quantum_s": 1e-6})

    monkeypatch.setattr("agentrt.runtime.xpu.loading.choose_granularity", into_layers)
    with LocalRuntime.open("nano", runtime.config, contexts=contexts) as again:
        assert again._engine._scheduler._graph.bounds != bounds
        resumed = again.generate(next_turn(first), max_tokens=40)
    assert resumed.usage.cached_tokens > 0
    assert resumed.token_ids == expected.token_ids


@pytest.mark.check
def test_contexts_of_other_settings_or_of_another_model_are_not_used(
    open_runtime: OpenRuntime, suspend: Suspend, nano_directory: ModelDirectory, tmp_path: Path
) -> None:
    runtime = open_runtime()
    runtime.generate(FIRST, max_tokens=2)
    contexts = suspend(runtime)
    u8 = RuntimeConfig(**runtime.config.model_dump() | {"kv_cache_precision": "u8"})
    with LocalRuntime.open("nano", u8, contexts=contexts) as other:
        assert other.statistics().cached_blocks == 0

    copy = shutil.copytree(nano_directory.path, tmp_path / "copy")
    config = RuntimeConfig(memory_bytes=8 * 2**20)
    with LocalRuntime.open(copy, config) as original:
        original.generate(FIRST, max_tokens=2)
        contexts = suspend(original)
    assert contexts.block_hashes
    os.utime(copy / "openvino_model.bin", ns=(0, 0))  # replaced
    with LocalRuntime.open(copy, config, contexts=contexts) as replaced:
        assert replaced.statistics().cached_blocks == 0


def test_a_full_disk(open_runtime: OpenRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no device that is always full")
    runtime = open_runtime()
    runtime.generate(FIRST, max_tokens=2)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "wb", buffering=0))  # noqa: SIM115
    with pytest.raises(OSError, match="space"):
        runtime.suspend()
    with pytest.raises(RuntimeClosedError):
        runtime.generate(FIRST)


@pytest.mark.check
def test_contexts_that_cannot_be_read_are_computed_again(open_runtime: OpenRuntime, suspend: Suspend) -> None:
    runtime = open_runtime()
    expected = runtime.generate(FIRST, max_tokens=20)
    contexts = suspend(runtime)
    contexts._file.truncate(1000)
    with LocalRuntime.open("nano", runtime.config, contexts=contexts) as again:
        assert again.statistics().cached_blocks == 0
        assert again.generate(FIRST, max_tokens=20).token_ids == expected.token_ids
