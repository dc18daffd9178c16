"""Chunks of ended requests on their way into the memory tier and into the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentrt.errors import ContextNotFoundError, ContextStoreError
from agentrt.runtime.kv.store.chunk_files import Chunk
from agentrt.runtime.kv.swap import chunk_saver
from agentrt.runtime.kv.swap.chunk_saver import ChunkSaver
from agentrt.runtime.kv.swap.chunks import OutgoingChunk, SwapOut
from agentrt.runtime.kv.swap.memory_tier import MemoryTier
from agentrt.runtime.kv.swap.ranking import ChunkRanking
from agentrt.runtime.kv.swap.recompressor import Recompressor
from tests.patience import until
from tests.runtime.kv.swap.arena_bytes import ArenaBytes

BLOCKS, SIZES = 80, (3, 5)
NOTHING_LOWERED = Recompressor([], ArenaBytes(), MemoryTier(0), None)


def key(number: int) -> bytes:
    return number.to_bytes(16)


def outgoing(*numbers: int, app: str = "app") -> SwapOut:
    chunks = tuple(OutgoingChunk(key(number), number, number) for number in numbers)
    return SwapOut(app, "", tuple(map(key, numbers)), chunks, b"salt")


class Store:
    """Keeps what is written, when the test lets it."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.go = threading.Event()
        self.go.set()
        self.error: Exception | None = None

    def __call__(self, swap_out: SwapOut, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        self.written.append([int.from_bytes(chunk.block_hash) for chunk in chunks])
        return chunks


class Saving:
    def __init__(self, *, store: bool = True, memory_bytes: int = 10**6, **options: Any) -> None:
        self.rows = [np.repeat(np.arange(BLOCKS, dtype=np.uint8)[:, None], size, axis=1) for size in SIZES]
        self.store = Store()
        self.tier = MemoryTier(memory_bytes)
        self.saver = ChunkSaver(self.rows, ArenaBytes(), self.tier, self.store if store else None, **options)
        self.copied: list[int] = []
        self.progress = threading.Semaphore(0)
        self.saver.start(self._copied)

    def _copied(self, blocks: Sequence[int]) -> None:
        self.copied += blocks
        self.progress.release()

    def save(self, *swap_outs: SwapOut) -> None:
        """Save them to the end."""
        for swap_out in swap_outs:
            self.saver.save(swap_out)
        assert self.saver.close(30)

    def wait_for_copy(self) -> None:
        assert self.progress.acquire(timeout=30)


@pytest.fixture
def save() -> Iterator[Callable[..., Saving]]:
    made: list[Saving] = []

    def new(**options: Any) -> Saving:
        made.append(Saving(**options))
        return made[-1]

    yield new
    for saving in made:
        saving.store.go.set()
        assert saving.saver.close(30)


def test_blocks_get_into_memory_and_into_the_store(save: Callable[..., Saving]) -> None:
    saving = save()
    saving.save(outgoing(*range(40)))
    assert saving.copied == list(range(40))
    assert saving.store.written == [list(range(32)), list(range(32, 40))]
    kept = saving.tier.get("app", key(7))
    assert kept is not None
    assert kept.payload == bytes([7] * 8)
    assert (saving.saver.saved, saving.saver.saved_bytes) == (40, 320)
    assert not saving.saver.is_saving("app", key(7))


def test_blocks_are_released_while_the_disk_hangs(save: Callable[..., Saving]) -> None:
    saving = save()
    saving.store.go.clear()
    for first in range(0, 64, 32):
        saving.saver.save(outgoing(*range(first, first + 32)))
        saving.wait_for_copy()
    assert saving.copied == list(range(64))
    assert saving.saver.is_saving("app", key(3)), "it is not stored a second time meanwhile"
    assert saving.saver.on_the_way == 64
    assert not saving.saver.is_saving("other", key(3))


def test_a_disk_that_is_too_slow_loses_chunks_and_no_memory(
    save: Callable[..., Saving], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chunk_saver, "_MAX_UNWRITTEN_BYTES", 20)
    saving = save(memory_bytes=0)
    saving.store.go.clear()
    for number in range(5):
        saving.saver.save(outgoing(number))
        saving.wait_for_copy()
    until(lambda: saving.saver.dropped == 3)  # a chunk is encoded and dropped after its copy was reported
    saving.store.go.set()
    assert saving.saver.close(30)
    assert saving.store.written == [[0], [1]]
    assert saving.saver.dropped == 3
    assert not saving.saver.is_saving("app", key(4))
    assert len(caplog.records) == 1, "one warning"


def test_a_full_disk_costs_only_what_it_could_not_take(
    save: Callable[..., Saving], caplog: pytest.LogCaptureFixture
) -> None:
    saving = save()
    saving.store.error = ContextStoreError("the disk is full. Free some space.")
    saving.save(outgoing(1, 2), outgoing(3))
    assert (saving.saver.saved, saving.saver.dropped) == (0, 3)
    assert saving.tier.get("app", key(1)) is not None, "it is in memory all the same"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "disk is full" in caplog.text


def test_a_request_without_new_chunks_counts_as_a_use_of_its_context(save: Callable[..., Saving]) -> None:
    saving = save()
    saving.save(outgoing())
    assert saving.store.written == [[]]


def test_blocks_are_released_where_encoding_fails(
    save: Callable[..., Saving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArenaBytes, "encode", lambda *_: 1 / 0)
    saving = save()
    saving.save(outgoing(*range(40)))
    assert saving.copied == list(range(40))
    assert saving.saver.on_the_way == 0


def test_a_context_that_was_deleted_meanwhile_is_no_failure(
    save: Callable[..., Saving], caplog: pytest.LogCaptureFixture
) -> None:
    saving = save()
    saving.store.error = ContextNotFoundError("ctx_1")
    saving.save(outgoing(1, 2))
    assert (saving.saver.dropped, saving.saver.saved, caplog.messages) == (0, 0, [])


def test_chunks_of_several_levels_are_stored_in_the_order_of_their_blocks(
    save: Callable[..., Saving],
) -> None:
    ranking = ChunkRanking(lambda densities, positions, stored: [4, 8, 2, 8], NOTHING_LOWERED)
    saving = save(ranking=ranking)
    saving.save(outgoing(1, 2, 3, 4))
    assert saving.store.written == [[1, 2, 3, 4]]


@pytest.mark.parametrize("store", [False, True])
def test_chunks_of_an_app_that_has_deleted_everything_are_not_kept(
    save: Callable[..., Saving], store: bool
) -> None:
    saving = save(store=store, is_current=lambda app, salt: app != "gone")
    saving.save(outgoing(*range(40), app="gone"), outgoing(*range(40, 50)))
    assert saving.copied == list(range(50)), "their blocks are released"
    assert saving.store.written == ([list(range(40, 50))] if store else [])
    assert (saving.tier.hashes("gone"), len(saving.tier.hashes("app"))) == ([], 10)
    assert (saving.saver.on_the_way, saving.saver.saved) == (0, 10)


LEVELS = (0, 8, 4, 2)
BUDGET = 100


def chunk(number: int, level: int = 8, size: int = 10) -> Chunk:
    return Chunk(number.to_bytes(16), level, bytes(size))


class TierMachine(RuleBasedStateMachine):
    """A tier beside a list of its chunks in the order of their last use."""

    def __init__(self) -> None:
        super().__init__()
        self.tier = MemoryTier(BUDGET)
        self.used: list[Chunk] = []

    @rule(number=st.integers(0, 20), level=st.sampled_from(LEVELS), size=st.integers(1, 60))
    def put(self, number: int, level: int, size: int) -> None:
        new = chunk(number, level, size)
        self.used = [other for other in self.used if other.block_hash != new.block_hash]
        self.used.append(new)
        self.tier.put("app", new)
        while sum(len(other.payload) for other in self.used) > BUDGET:
            heaviest = max(other.level or 32 for other in self.used)
            self.used.remove(next(other for other in self.used if (other.level or 32) == heaviest))

    @rule(number=st.integers(0, 20))
    def get(self, number: int) -> None:
        expected = next((other for other in self.used if other.block_hash == number.to_bytes(16)), None)
        assert self.tier.get("app", number.to_bytes(16)) is expected
        if expected is not None:
            self.used.remove(expected)
            self.used.append(expected)

    @rule(number=st.integers(0, 20))
    def forget(self, number: int) -> None:
        self.used = [other for other in self.used if other.block_hash != number.to_bytes(16)]
        self.tier.forget("app", number.to_bytes(16))

    @invariant()
    def within_the_budget(self) -> None:
        assert self.tier.payload_bytes == sum(len(other.payload) for other in self.used) <= BUDGET
        assert all(("app", other.block_hash) in self.tier for other in self.used)


TestTier = TierMachine.TestCase


def test_no_app_finds_another_apps_chunk() -> None:
    tier = MemoryTier(BUDGET)
    tier.put("mail", chunk(1))
    assert tier.get("notes", chunk(1).block_hash) is None
    assert ("notes", chunk(1).block_hash) not in tier
    assert tier.get("mail", chunk(1).block_hash) == chunk(1)
    tier.clear()
    tier.put("mail", chunk(2))
    assert (tier.payload_bytes, tier.hashes("mail")) == (10, [chunk(2).block_hash])


def test_a_tier_of_spare_memory_gives_way_to_others() -> None:
    free, now = [800], [0.0]
    tier = MemoryTier(200, lambda: free[0], clock=lambda: now[0])
    for number in range(20):
        tier.put("app", chunk(number))
    assert tier.payload_bytes == 100, "an eighth"
    free[0] = 5000
    tier.put("app", chunk(20))
    assert tier.payload_bytes == 100, "it has looked a moment ago"
    now[0] += 1
    for number in range(40):
        tier.put("app", chunk(number))
    assert tier.payload_bytes == 200, "its budget"
    free[0] = 0
    now[0] += 1
    tier.put("app", chunk(50))
    assert tier.payload_bytes == 20, "an eighth of what it has"


def test_where_the_free_memory_is_not_known_a_tier_takes_none() -> None:
    tier = MemoryTier(200, lambda: None)
    tier.put("app", chunk(1))
    assert tier.payload_bytes == 0


@pytest.mark.parametrize("budget", [0, 9])
def test_a_chunk_larger_than_the_budget_is_not_kept(budget: int) -> None:
    tier = MemoryTier(budget)
    tier.put("app", chunk(1))
    assert (tier.payload_bytes, tier.evicted) == (0, 0)
