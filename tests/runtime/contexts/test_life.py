"""Contexts of named apps in a folder: found after a restart, with the same tokens, and what can go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import (
    ChunkDamagedError,
    ContextStoreError,
    DeadlineExceededError,
    RuntimeClosedError,
)
from agentrt.priority import Priority
from agentrt.runtime import LocalRuntime
from agentrt.runtime.kv.store.store import ContextStore
from agentrt.runtime.kv.swap import chunk_loader
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.local import assembly
from agentrt.runtime.pool.pooled_model import PooledModel
from tests.runtime.conftest import open_exact
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


def restarted(opened: Callable[..., LocalRuntime], **settings: Any) -> LocalRuntime:
    """Return a runtime that finds the first turn of ``notes`` in the folder, and nothing in its arena."""
    with opened(**settings) as runtime:
        runtime.generate(FIRST, max_tokens=40, app="notes")
    return opened(**settings)


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


def test_a_restart_finds_the_contexts(opened: Callable[..., LocalRuntime], expected: Any) -> None:
    first, second = expected
    runtime = restarted(opened)
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
    opened: Callable[..., LocalRuntime], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk gives one chunk and then hangs: the others are computed, from the beginning."""
    first, second = expected
    runtime = restarted(opened)
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
    opened: Callable[..., LocalRuntime], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = expected
    runtime = restarted(opened)
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


@pytest.mark.check
def test_a_flipped_bit_in_every_file_of_chunks(
    opened: Callable[..., LocalRuntime], expected: Any, tmp_path: Path
) -> None:
    first, second = expected
    with opened() as runtime:
        runtime.generate(FIRST, max_tokens=40, app="notes")
    for file in (tmp_path / "contexts").rglob("*.chunks"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    runtime = opened()
    resumed = runtime.generate(next_turn(first), max_tokens=40, app="notes")
    assert resumed.token_ids == second.token_ids


def test_no_app_finds_the_chunks_of_another(opened: Callable[..., LocalRuntime], expected: Any) -> None:
    first, second = expected
    runtime = restarted(opened)
    for app in ("mail", ""):
        other = runtime.generate(next_turn(first), max_tokens=40, app=app)
        assert other.usage.cached_tokens == 0
        assert other.token_ids == second.token_ids
    assert runtime.statistics().engine.loaded_contexts == 0


class HangingDisk:
    """Hangs in the first read until the test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reading, self.go = threading.Event(), threading.Event()
        read = ContextStore.read_all

        def hang(store: ContextStore, locations: Any, following: Any) -> Any:
            self.reading.set()
            assert self.go.wait(60)
            return read(store, locations, following)

        monkeypatch.setattr(ContextStore, "read_all", hang)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingDisk]:
    disk = HangingDisk(monkeypatch)
    yield disk
    disk.go.set()


def test_a_request_whose_context_is_loaded_can_be_cancelled_and_has_its_deadline(
    opened: Callable[..., LocalRuntime], expected: Any, hanging: HangingDisk
) -> None:
    first, second = expected
    runtime = restarted(opened)
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
def test_closing_during_a_load(
    opened: Callable[..., LocalRuntime], expected: Any, hanging: HangingDisk
) -> None:
    first, _ = expected
    runtime = restarted(opened)
    errors: list[BaseException] = []

    def generate() -> None:
        try:
            runtime.generate(next_turn(first), app="notes")
        except RuntimeClosedError as error:
            errors.append(error)

    waiting = threading.Thread(target=generate)
    waiting.start()
    assert hanging.reading.wait(30)
    closing = threading.Thread(target=runtime.close)
    closing.start()
    waiting.join(30)
    assert len(errors) == 1
    hanging.go.set()
    closing.join(30)
    assert not closing.is_alive()


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
def test_a_second_runtime_on_the_same_folder(opened: Callable[..., LocalRuntime]) -> None:
    opened()
    with pytest.raises(ContextStoreError, match="another"):
        opened()


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
    opened: Callable[..., LocalRuntime], expected: Any
) -> None:
    """A profile that is measured again, or refined, may have the model cut elsewhere."""
    first, second = expected
    with opened() as whole:
        whole.generate(FIRST, max_tokens=40, app="notes")
    cut = opened(quantum_s=1e-4)
    assert cut._engine._scheduler._graph.bounds != whole._engine._scheduler._graph.bounds
    resumed = cut.generate(next_turn(first), max_tokens=40, app="notes")
    assert resumed.usage.cached_tokens > 0
    assert resumed.token_ids == second.token_ids


@pytest.mark.check
@pytest.mark.parametrize("folder", [None, "contexts"])
def test_contexts_of_a_closed_runtime_cannot_be_used(
    open_runtime: Callable[..., LocalRuntime], tmp_path: Path, folder: str | None
) -> None:
    with open_runtime(context_folder=None if folder is None else tmp_path / folder) as runtime:
        app = runtime.bind("notes")
        context = app.new_context("Be brief.")
        with contextlib.closing(app.iter_stream(context, "Hello!", max_tokens=40)) as events:
            next(events)
            runtime.close()
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
