"""The swapper over a real store and the memory of a small arena; the contexts that chunks are stored in."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from agentrt.errors import ChunkDamagedError, ContextNotFoundError
from agentrt.runtime.kv.store.chunk_files import Chunk, ChunkLocation
from agentrt.runtime.kv.store.store import ContextStore
from agentrt.runtime.kv.swap import swapper as swapper_file
from agentrt.runtime.kv.swap.chunks import ChunkLoad, LoadState, OutgoingChunk, SwapOut
from agentrt.runtime.kv.swap.swapper import PREFIX_KIND, ContextFiles, Swapper
from tests.runtime.kv.swap.arena_bytes import ArenaBytes

BLOCKS, SIZES = 16, (3, 5)
APP = "notes"


def key(number: int) -> bytes:
    return number.to_bytes(16)


class Arena:
    """A swapper of an arena whose blocks are filled with their numbers."""

    def __init__(self, store: ContextStore | None, memory_bytes: int = 0) -> None:
        self.rows = [np.repeat(np.arange(BLOCKS, dtype=np.uint8)[:, None], size, axis=1) for size in SIZES]
        self._store = store
        self.swapper = Swapper(self.rows, ArenaBytes(), memory_bytes=memory_bytes, store=store)
        self.loaded = threading.Semaphore(0)
        self.swapper.start(self._ended, lambda blocks: None)

    def salt(self, app: str) -> bytes:
        return b"salt" if self._store is None else self._store.salts.salt_for(app)

    def _ended(self, loads: Sequence[ChunkLoad]) -> None:
        for _ in loads:
            self.loaded.release()

    def store(self, *numbers: int, app: str = APP, context_id: str = "") -> None:
        """Store blocks, each under its number."""
        chunks = tuple(OutgoingChunk(key(number), number, number) for number in numbers)
        self.swapper.swap_out(SwapOut(app, context_id, tuple(map(key, numbers)), chunks, self.salt(app)))
        done = threading.Event()
        saver = self.swapper._saver
        saver._encoding.submit(lambda: saver._writing.submit(done.set))
        assert done.wait(30)
        assert self.swapper.statistics().waiting_chunks == 0

    def load(self, number: int, block: int) -> LoadState:
        load = ChunkLoad(APP, key(number), number, block, 0, (0, True, 0, -number))
        self.swapper.load([load])
        assert self.loaded.acquire(timeout=30)
        return load.state


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ContextStore]:
    with ContextStore(tmp_path, b"model") as opened:
        yield opened


@pytest.mark.parametrize("memory_bytes", [0, 16, 1000])
def test_out_and_in(store: ContextStore, memory_bytes: int) -> None:
    arena = Arena(store, memory_bytes)
    arena.store(1, 2, 3)
    assert arena.swapper.stores(APP, key(2))
    assert arena.load(2, 9) is LoadState.LOADED
    assert all((cache[9] == 2).all() for cache in arena.rows)
    statistics = arena.swapper.statistics()
    assert (statistics.chunks_out, statistics.chunks_in) == (3, 1)
    assert statistics.memory_bytes == min(memory_bytes // 8, 3) * 8
    arena.swapper.close()


def test_a_chunk_in_memory_costs_no_read(store: ContextStore) -> None:
    arena = Arena(store, 1000)
    arena.store(1)
    assert arena.swapper.locate(APP, key(1)) == 0
    cold = Arena(store)
    assert cold.swapper.locate(APP, key(1)) == sum(SIZES) + 4, "with its checksum"
    assert cold.swapper.locate("mail", key(1)) is None
    for each in (arena, cold):
        each.swapper.close()


def test_a_chunk_that_is_gone_is_computed(store: ContextStore) -> None:
    arena = Arena(store)
    arena.store(1)
    (context,) = store.contexts(APP)
    store.delete(APP, context.id)
    assert not arena.swapper.stores(APP, key(1))
    assert arena.load(1, 9) is LoadState.FAILED
    arena.swapper.close()


def test_what_was_deleted_is_dropped_from_memory(store: ContextStore) -> None:
    arena = Arena(store, 1000)
    for context_id, number in (("first", 1), ("second", 2)):
        store.create(APP, context_id)
        arena.store(number, context_id=context_id)
    arena.store(3, app="mail")
    store.delete(APP, "first")
    arena.swapper.forget_deleted(APP)
    assert arena.swapper.locate(APP, key(1)) is None
    assert arena.swapper.locate(APP, key(2)) == 0
    assert arena.swapper.locate("mail", key(3)) == 0
    arena.swapper.close()


def test_closing_stores_what_is_queued_and_forgets_the_arena(store: ContextStore) -> None:
    arena = Arena(store, 1000)
    chunks = tuple(OutgoingChunk(key(number), number, number) for number in range(BLOCKS))
    arena.swapper.swap_out(SwapOut(APP, "", tuple(map(key, range(BLOCKS))), chunks, arena.salt(APP)))
    arena.swapper.close()
    assert all(store.locate(APP, key(number)) is not None for number in range(BLOCKS))
    assert not arena.swapper._loader._rows
    assert not arena.swapper._saver._rows
    assert arena.swapper.statistics().memory_bytes == 0
    arena.swapper.close()


def test_a_chunk_that_is_deleted_while_it_is_read_does_not_stay_in_memory(
    store: ContextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Arena(store).store(1)
    arena = Arena(store, 1000)
    read = store.read_all

    def read_late(
        locations: Sequence[ChunkLocation], following: Sequence[ChunkLocation]
    ) -> list[Chunk | ChunkDamagedError]:
        found = read(locations, following)
        store.delete_all(APP)
        arena.swapper.forget_deleted(APP)
        return found

    monkeypatch.setattr(store, "read_all", read_late)
    assert arena.load(1, 9) is LoadState.LOADED  # the request has begun before
    assert arena.swapper.statistics().memory_bytes == 0
    arena.swapper.close()


def name(text: str) -> bytes:
    return text.encode().ljust(16)


def write(files: ContextFiles, chain: str, *, app: str = "app", context_id: str = "") -> str:
    """Store the chunks of a chain of one-letter hashes; return those that were new."""
    hashes = tuple(name(chain[: end + 1]) for end in range(len(chain)))
    chunks = tuple(OutgoingChunk(block_hash, place, 0) for place, block_hash in enumerate(hashes))
    stored = files.write(
        SwapOut(app, context_id, hashes, chunks, files._store.salts.salt_for(app)),
        [Chunk(block_hash, 0, block_hash) for block_hash in hashes],
    )
    return "".join(chunk.block_hash.decode().strip()[-1] for chunk in stored)


def test_the_next_turn_continues_a_context(store: ContextStore) -> None:
    files = ContextFiles(store)
    assert write(files, "abc") == "abc"
    assert write(files, "abcde") == "de"
    (context,) = store.contexts("app")
    assert context.header == {"kind": PREFIX_KIND}
    assert list(context.block_hashes) == [name("abcde"[:end]) for end in range(1, 6)]


def test_a_branch_is_a_context_of_its_own_and_shares_the_prefix(store: ContextStore) -> None:
    files = ContextFiles(store)
    write(files, "abc")
    assert write(files, "abX") == "X"
    assert write(files, "abcd") == "d"
    first, second = sorted(store.contexts("app"), key=lambda context: len(context.block_hashes))
    assert first.block_hashes[-1] == name("abX")
    assert second.block_hashes[-1] == name("abcd")
    store.delete("app", second.id)
    assert store.locate("app", name("ab")) is not None, "the other one uses it"
    assert store.locate("app", name("abc")) is None


def test_contexts_are_continued_after_a_restart(tmp_path: Path) -> None:
    with ContextStore(tmp_path, b"model") as store:
        write(ContextFiles(store), "abc")
    with ContextStore(tmp_path, b"model") as store:
        assert write(ContextFiles(store), "abcd") == "d"
        assert len(store.contexts("app")) == 1


def test_a_named_context_keeps_its_own(store: ContextStore) -> None:
    files = ContextFiles(store)
    store.create("app", "ctx_1", {"kind": "context"})
    assert write(files, "ab", context_id="ctx_1") == "ab"
    assert write(files, "abc") == "c", "a request without a name does not write to it"
    named = store.get("app", "ctx_1")
    assert named is not None
    assert len(named.block_hashes) == 2


def test_a_context_that_was_deleted_meanwhile_is_left_alone(store: ContextStore) -> None:
    assert write(ContextFiles(store), "ab", context_id="ctx_1") == ""
    assert write(ContextFiles(store), "ab", context_id="ctx_1", app="other") == ""
    assert not store.contexts("app")


def test_apps_share_nothing(store: ContextStore) -> None:
    files = ContextFiles(store)
    assert write(files, "abc", app="mail") == "abc"
    assert write(files, "abc", app="notes") == "abc"


def test_an_app_has_a_bounded_number_of_them(store: ContextStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swapper_file, "MAX_PREFIX_CONTEXTS", 2)
    files = ContextFiles(store)
    for chain in ("a", "b", "ac", "d"):  # "ac" continues "a"
        write(files, chain)
    assert len(store.contexts("app")) == 2
    assert store.locate("app", name("b")) is None
    assert store.locate("app", name("ac")) is not None


def test_requests_that_began_before_everything_was_deleted_leave_nothing(store: ContextStore) -> None:
    files = ContextFiles(store)
    write(files, "abc")
    write(files, "abc", app="other")
    former = SwapOut("app", "", (name("d"),), (), store.salts.salt_for("app"))
    store.delete_all("app")
    chunk = Chunk(name("d"), 0, b"d")
    assert files.write(former, [chunk]) == ()
    assert store.contexts("app") == []
    assert write(files, "abc") == "abc"  # of a later request
    assert len(store.contexts("other")) == 1


def test_everything_is_deleted_while_a_request_is_written(
    store: ContextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ContextFiles(store)
    create = store.create

    def create_late(*arguments: object, **options: object) -> object:
        store.delete_all("app")
        return create(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "create", create_late)
    with pytest.raises(ContextNotFoundError):
        write(files, "abc")
    assert store.contexts("app") == []
