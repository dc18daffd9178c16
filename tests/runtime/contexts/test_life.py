"""Contexts of named apps in a folder: found after a restart, with the same tokens, and what can go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentrt.errors import ChunkDamagedError, DeadlineExceededError, RuntimeClosedError
from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime, RuntimeConfig
from agentrt.runtime.contexts import opening
from agentrt.runtime.kv.store.store import ContextStore
from agentrt.runtime.kv.swap import chunk_loader
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.local import assembly
from agentrt.runtime.model.opening import OpeningStep
from agentrt.runtime.pool.pooled_model import PooledModel
from tests.patience import until
from tests.runtime.conftest import Hold, open_exact
from tests.runtime.test_prefix_reuse import BLOCK, SYSTEM, conversation

FIRST = [SYSTEM, {"role": "user", "content": "What is the weather in Oslo?"}]
EXACT = {"dynamic_quantization_group_size": 0}


@pytest.fixture
def opened(tmp_path: Path, open_runtime: Callable[..., LocalRuntime]) -> Callable[..., LocalRuntime]:
    return lambda **settings: open_runtime(**EXACT | {"context_folder": tmp_path / "contexts"} | settings)


def next_turn(generation: Any) -> list[Any]:
    answer = {"role": "assistant", "content": generation.text}
    return [*FIRST, answer, {"role": "user", "content": "And in Bergen?"}]


@pytest.fixture(scope="module")
def expected() -> tuple[Any, Any]:
    """Two turns without stored contexts, computed anew."""
    with open_exact(**EXACT) as runtime:
        first = runtime.generate(FIRST, max_tokens=40, app="notes")
        return first, runtime.generate(next_turn(first), max_tokens=40, app="other")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the first turn of ``notes``."""
    folder = tmp_path_factory.mktemp("stored")
    with open_exact(**EXACT, context_folder=folder) as runtime:
        runtime.generate(FIRST, max_tokens=40, app="notes")
    return folder


@pytest.fixture
def restarted(opened: Callable[..., LocalRuntime], stored: Path, tmp_path: Path) -> LocalRuntime:
    """A runtime that finds that turn in its folder, and nothing in its arena."""
    shutil.copytree(stored, tmp_path / "contexts")
    return opened()


@pytest.mark.check
def test_opening_warms_up_for_the_longest_stored_context(
    opened: Callable[..., LocalRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[int] = []
    monkeypatch.setattr(assembly, "warm_up_attention", lambda *arguments: warmed.append(arguments[2]))
    with opened() as runtime:
        runtime.generate(FIRST, max_tokens=40, app="notes")
        runtime.generate(FIRST[1:], max_tokens=4, app="mail")
    assert warmed == [], "nothing was stored"
    with opened() as runtime:
        store = runtime._kept.store
        assert store is not None
        longest = max(len(context.block_hashes) for context in store.contexts("notes"))
        assert warmed == [longest * BLOCK]
        least = runtime.statistics().arena_bytes // runtime.statistics().blocks
    with opened(memory_bytes=2 * least):
        assert warmed[1:] == [BLOCK], "the arena has no room for more"


def test_a_restart_finds_the_contexts(restarted: LocalRuntime, expected: Any) -> None:
    first, second = expected
    runtime = restarted
    resumed = runtime.generate(next_turn(first), max_tokens=40, app="notes")
    assert resumed.token_ids == second.token_ids
    known = first.usage.prompt_tokens + first.usage.completion_tokens - 2
    assert known - 2 * BLOCK < resumed.usage.cached_tokens <= known
    statistics = runtime.statistics()
    assert statistics.engine.loaded_contexts == 1
    assert statistics.engine.switch_s > 0
    assert statistics.contexts is not None
    assert statistics.contexts.chunks_in == resumed.usage.cached_tokens // BLOCK
    again = runtime.generate(next_turn(first), max_tokens=40, app="notes")
    assert again.token_ids == second.token_ids
    assert runtime.statistics().engine.loaded_contexts == 1, "it is in the arena now"


@pytest.mark.check
def test_quantised_keys_are_loaded_as_they_were(opened: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    staying = opened(kv_cache_precision="u8", context_folder=tmp_path / "other")
    plain = conversation(staying, app="notes")
    with opened(kv_cache_precision="u8") as runtime:
        conversation(runtime, app="notes")
    again = conversation(opened(kv_cache_precision="u8"), app="notes")
    assert [turn.token_ids for turn in again] == [turn.token_ids for turn in plain]
    assert again[0].usage.cached_tokens > 0


@pytest.mark.check
def test_a_load_meets_the_recompute(
    restarted: LocalRuntime, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk gives one chunk and then hangs: the others are computed, from the beginning."""
    first, second = expected
    runtime = restarted
    hanging, go = threading.Event(), threading.Event()
    reads: list[Any] = []
    read = ContextStore.read_all

    def slow(store: ContextStore, locations: Any, following: Any) -> Any:
        reads.extend(locations)
        if len(reads) > 1:
            hanging.set()
            assert go.wait(60)
        return read(store, locations, following)

    monkeypatch.setattr(ContextStore, "read_all", slow)
    monkeypatch.setattr(chunk_loader, "_GROUP", 1)
    loader = runtime._kept.swapper._loader
    monkeypatch.setattr(loader, "io_cost", lambda: LinearCost(1.0 if hanging.is_set() else 0.0, 0.0))
    resumed = runtime.generate(next_turn(first), max_tokens=40, app="notes")
    assert hanging.is_set()
    go.set()
    assert resumed.token_ids == second.token_ids
    statistics = runtime.statistics()
    stored = (first.usage.prompt_tokens + first.usage.completion_tokens - 2) // BLOCK
    assert 1 <= resumed.usage.cached_tokens // BLOCK < stored
    assert statistics.engine.recomputed_chunks == stored - resumed.usage.cached_tokens // BLOCK


def test_a_damaged_chunk_costs_its_recompute_only(
    restarted: LocalRuntime, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = expected
    runtime = restarted
    read, reads = ContextStore.read_all, []

    def damaged(store: ContextStore, locations: Any, following: Any) -> Any:
        found = read(store, locations, following)
        if len(reads) < 3 <= len(reads) + len(found):
            found[2 - len(reads)] = ChunkDamagedError("a bit has flipped. Compute it again.")
        reads.extend(locations)
        return found

    monkeypatch.setattr(ContextStore, "read_all", damaged)
    resumed = runtime.generate(next_turn(first), max_tokens=40, app="notes")
    assert resumed.token_ids == second.token_ids
    assert resumed.usage.cached_tokens == (len(reads) - 1) * BLOCK
    statistics = runtime.statistics()
    assert statistics.contexts is not None
    assert statistics.contexts.damaged_chunks == statistics.engine.recomputed_chunks == 1


def test_no_app_finds_the_chunks_of_another(restarted: LocalRuntime, expected: Any) -> None:
    first, second = expected
    runtime = restarted
    for app in ("mail", ""):
        other = runtime.generate(next_turn(first), max_tokens=40, app=app)
        assert other.usage.cached_tokens == 0
        assert other.token_ids == second.token_ids
    assert runtime.statistics().engine.loaded_contexts == 0


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A disk that hangs in the first read until the test ends."""
    disk = SimpleNamespace(reading=threading.Event(), go=threading.Event())
    read = ContextStore.read_all

    def hang(store: ContextStore, locations: Any, following: Any) -> Any:
        disk.reading.set()
        assert disk.go.wait(60)
        return read(store, locations, following)

    monkeypatch.setattr(ContextStore, "read_all", hang)
    yield disk
    disk.go.set()


def test_a_request_whose_context_is_loaded_can_be_cancelled_and_has_its_deadline(
    restarted: LocalRuntime, expected: Any, hanging: SimpleNamespace
) -> None:
    first, second = expected
    runtime = restarted
    with pytest.raises(DeadlineExceededError):
        runtime.generate(next_turn(first), app="notes", deadline_s=0.2)
    request = runtime._submit(runtime._input_processor.process(next_turn(first), app="notes"))
    other = runtime.generate(FIRST, max_tokens=5, app="mail", priority=Priority.PROACTIVE)
    assert other.token_ids, "nothing else waits for the disk"
    with request as pending:
        runtime._engine.cancel(pending._request)
        assert pending.output.result(30).stop_reason == "cancelled"
    hanging.go.set()
    assert runtime.generate(next_turn(first), max_tokens=40, app="notes").token_ids == second.token_ids


@pytest.mark.check
def test_closing_during_a_load(restarted: LocalRuntime, expected: Any, hanging: SimpleNamespace) -> None:
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(restarted.generate, next_turn(expected[0]), app="notes")
        assert hanging.reading.wait(30)
        closing = pool.submit(restarted.close)
        with pytest.raises(RuntimeClosedError):
            waiting.result(30)
        hanging.go.set()
        closing.result(30)


@pytest.mark.check
def test_many_contexts_in_a_small_arena(open_runtime: Callable[..., LocalRuntime], tmp_path: Path) -> None:
    """Each turn finds its context in the folder or in memory, whatever the arena has lost."""
    roomy = open_runtime(**EXACT)
    apps = [f"app-{number}" for number in range(5)]
    blocks = roomy.statistics()
    small = open_runtime(
        **EXACT,
        memory_bytes=16 * blocks.arena_bytes // blocks.blocks,
        context_folder=tmp_path,
        context_memory_bytes=8 * blocks.arena_bytes // blocks.blocks,
    )
    messages: dict[str, list[Any]] = {app: [SYSTEM] for app in apps}
    for question in ("What is the weather in Oslo?", "And in Bergen?"):
        for app in apps:
            messages[app].append({"role": "user", "content": question})
            expected = roomy.generate(messages[app], max_tokens=30, app=app)
            found = small.generate(messages[app], max_tokens=30, app=app)
            assert found.token_ids == expected.token_ids
            messages[app].append({"role": "assistant", "content": found.text})
            if question.startswith("And"):
                assert found.usage.cached_tokens > 0
    statistics = small.statistics()
    assert statistics.engine.loaded_contexts > 0
    assert statistics.contexts is not None
    assert 0 < statistics.contexts.memory_bytes <= 8 * blocks.arena_bytes // blocks.blocks


@pytest.mark.check
def test_the_memory_tier_alone(open_runtime: Callable[..., LocalRuntime]) -> None:
    runtime = open_runtime(**EXACT, context_memory_bytes=2**20)
    runtime.generate(FIRST, max_tokens=5, app="notes")
    runtime.generate(FIRST, max_tokens=5)  # no app: not kept
    runtime._kept.swapper._saver._encoding.close(30)
    statistics = runtime.statistics()
    assert statistics.contexts is not None
    assert statistics.contexts.memory_bytes > 0
    assert runtime.memory_bytes == open_runtime(**EXACT).memory_bytes + 2**20
    assert PooledModel.find("nano", runtime.config).memory_bytes > runtime.config.memory_bytes + 2**20
    assert statistics.contexts.chunks_out == (statistics.cached_blocks + 1) // 2


@pytest.mark.check
def test_stored_contexts_take_spare_memory_unless_told_otherwise(
    opened: Callable[..., LocalRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "available_memory", lambda: 8 * 2**20)
    for settings, most in (({}, 2**20), ({"context_memory_bytes": 0}, 0)):
        runtime = opened(**settings)
        runtime.generate(FIRST, max_tokens=5, app="notes")
        until(lambda runtime=runtime: not runtime.statistics().contexts.waiting_chunks)  # type: ignore[misc]
        assert (0 < runtime.statistics().contexts.memory_bytes <= most) == bool(most)
        runtime.close()


@pytest.mark.check
def test_an_unloaded_model_finds_its_contexts_in_the_folder(
    opened: Callable[..., LocalRuntime], expected: Any
) -> None:
    first, second = expected
    runtime = opened()
    runtime.generate(FIRST, max_tokens=40, app="notes")
    contexts = runtime.suspend()
    assert not contexts.block_hashes
    contexts.close()
    again = opened()
    resumed = again.generate(next_turn(first), max_tokens=40, app="notes")
    assert resumed.token_ids == second.token_ids
    assert resumed.usage.cached_tokens > 0


@pytest.mark.check
def test_a_store_that_is_given_stays_open(
    open_runtime: Callable[..., LocalRuntime], tmp_path: Path, expected: Any
) -> None:
    first, second = expected
    with ContextStore(tmp_path) as store:
        for _ in range(2):
            with LocalRuntime.open("nano", open_runtime(**EXACT).config, context_store=store) as runtime:
                runtime.generate(FIRST, max_tokens=40, app="notes")
                resumed = runtime.generate(next_turn(first), max_tokens=40, app="notes")
                assert resumed.token_ids == second.token_ids
        assert store.contexts("notes")
        assert runtime.statistics().engine.loaded_contexts == 1


@pytest.mark.check
def test_contexts_are_found_however_the_model_is_cut(
    restarted: LocalRuntime, opened: Callable[..., LocalRuntime], expected: Any
) -> None:
    """A profile that is measured again, or refined, may have the model cut elsewhere."""
    first, second = expected
    restarted.close()
    cut = opened(quantum_s=1e-4)
    assert cut._engine._scheduler._graph.bounds != restarted._engine._scheduler._graph.bounds
    resumed = cut.generate(next_turn(first), max_tokens=40, app="notes")
    assert resumed.usage.cached_tokens > 0
    assert resumed.token_ids == second.token_ids


@pytest.mark.check
@pytest.mark.parametrize("folder", [None, "contexts"])
def test_contexts_of_a_closed_runtime_cannot_be_used(
    open_runtime: Callable[..., LocalRuntime], hold: Hold, tmp_path: Path, folder: str | None
) -> None:
    with open_runtime(context_folder=None if folder is None else tmp_path / folder) as runtime:
        app = runtime.bind("notes")
        context = app.new_context("Be brief.")
        gate = hold(runtime)
        gate.allow(20)
        stream = app.iter_stream(context, "Hello!", max_tokens=40, ignore_eos=True)
        with contextlib.closing(stream) as events, ThreadPoolExecutor(1) as pool:
            next(events)
            closing = pool.submit(runtime.close)
            until(lambda: runtime.closed)  # before the answer is complete
            gate.open()
            closing.result(60)
            with pytest.raises(RuntimeClosedError):
                list(events)
    uses: list[Callable[[], Any]] = [
        app.new_context,
        lambda: app.new_context("Be brief."),
        app.contexts,
        lambda: app.get(context),
        lambda: app.delete(context),
        app.delete_all,
        lambda: app.call(context, "Hello!", max_tokens=1),
        lambda: list(app.iter_stream(context, "Hello!", max_tokens=1)),
        lambda: asyncio.run(app.anew_context("Be brief.")),
        lambda: asyncio.run(app.adelete(context)),
        lambda: asyncio.run(app.adelete_all()),
        lambda: asyncio.run(app.acall(context, "Hello!", max_tokens=1)),
        lambda: asyncio.run(app.start(context, "Hello!", max_tokens=1)),
    ]
    for use in uses:
        with pytest.raises(RuntimeClosedError, match="Open it again"):
            use()


LONG = [{"role": "user", "content": "Find my notes about lasagne and about the trip to Porto. " * 24}]
MEASURING = "measuring: how much compression the model bears"


def open_nano(folder: Path, compression: float | None, steps: list[str], **options: float) -> LocalRuntime:
    def note(step: OpeningStep) -> None:
        steps.append(step.name)

    config = RuntimeConfig(
        context_folder=folder / f"contexts-{compression}",
        profile_folder=folder / "profiles",
        context_compression=compression,
        **options,  # type: ignore[arg-type]
    )
    return LocalRuntime.open("nano", config, on_step=note)


def stored_bytes(folder: Path, compression: float | None, **options: float) -> tuple[int, list[str]]:
    """Generate, restart, generate again; return the bytes of the stored chunks, and the steps of opening."""
    steps: list[str] = []
    with open_nano(folder, compression, steps, **options) as runtime:
        runtime.generate(LONG, app="notes", max_tokens=2)
    with open_nano(folder, compression, steps, **options) as runtime:
        runtime.generate(LONG, app="notes", max_tokens=2)
        contexts = runtime.statistics().contexts
    assert contexts is not None
    assert contexts.chunks_in > 0
    assert contexts.damaged_chunks == 0
    files = (folder / f"contexts-{compression}").glob("**/*.chunks")
    return sum(file.stat().st_size for file in files), steps


@pytest.mark.check
def test_chunks_are_stored_in_the_ratio_that_the_model_bears(tmp_path: Path) -> None:
    whole, steps = stored_bytes(tmp_path, None)
    assert MEASURING not in steps
    compressed, steps = stored_bytes(tmp_path, 0.5, context_tolerance=1.0)
    assert steps.count(MEASURING) == 1, "the second opening finds what was measured"
    assert 0.25 * whole < compressed < 0.52 * whole, "with hashes and checksums"
    refused, _ = stored_bytes(tmp_path, 0.6, context_tolerance=1e-9)
    assert refused == pytest.approx(whole, rel=0.01)
