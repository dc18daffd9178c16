from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from agentrt.errors import AgentRTError, ChunkDamagedError
from agentrt.runtime.kv.store.chunk_files import Chunk
from agentrt.runtime.kv.swap.chunk_loader import ChunkLoader
from agentrt.runtime.kv.swap.chunks import ChunkLoad, LoadState
from agentrt.runtime.kv.swap.costs import LinearCost
from tests.runtime.kv.swap.arena_bytes import ArenaBytes

BLOCKS, SIZES = 32, (3, 5)

pytestmark = pytest.mark.usefixtures("measured_costs")


def key(number: int) -> bytes:
    return number.to_bytes(16)


def wanted(number: int, *, level: int = 0, sequence: int = 0) -> ChunkLoad:
    """The load of chunk ``number`` into the block of this number."""
    return ChunkLoad("app", key(number), number, number, 100, (level, True, sequence, -number))


class Disk:
    """Returns chunks filled with their number, one whenever the test lets it."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.following: list[list[int]] = []
        self.reads: list[int] = []
        self.damaged: set[int] = set()
        self.go = threading.Semaphore(0)
        self.asked = threading.Semaphore(0)

    def __call__(
        self, loads: Sequence[ChunkLoad], following: Sequence[ChunkLoad]
    ) -> list[Chunk | AgentRTError]:
        self.groups.append(len(loads))
        self.following.append([load.position for load in following])
        return [self._read(load.block_hash) for load in loads]

    def _read(self, block_hash: bytes) -> Chunk | AgentRTError:
        number = int.from_bytes(block_hash)
        self.reads.append(number)
        self.asked.release()
        assert self.go.acquire(timeout=30)
        if number in self.damaged:
            return ChunkDamagedError("it is damaged. Compute it again.")
        size = sum(SIZES) - (number == 13)  # no chunk of this model
        return Chunk(block_hash, 0, bytes([number]) * size)

    def wait_for_read(self) -> None:
        assert self.asked.acquire(timeout=30)


class Loading:
    """A loader with a gate in its disk, and what it reports."""

    def __init__(self, chunk_s: float) -> None:
        self.rows = [np.zeros((BLOCKS, size), np.uint8) for size in SIZES]
        self.disk = Disk()
        self.reported: list[list[int]] = []
        self.progress = threading.Semaphore(0)
        self.now = 0.0
        self.wanted = 0
        self.loader = ChunkLoader(
            self.rows, ArenaBytes(), self.disk, lambda: LinearCost(chunk_s, 0.0), clock=lambda: self.now
        )
        self.loader.start(self._ended)

    def _ended(self, loads: Sequence[ChunkLoad]) -> None:
        self.reported.append([load.block for load in loads])
        self.progress.release()

    def wait_for_report(self) -> None:
        assert self.progress.acquire(timeout=30)

    def go_on(self, chunks: int) -> None:
        """Let the disk read so many more chunks, and wait until all that has begun is reported."""
        for _ in range(chunks):
            self.disk.go.release()
        self.wanted += chunks
        while sum(map(len, self.reported)) < self.wanted:
            self.wait_for_report()


@pytest.fixture
def opened() -> Iterator[Callable[[float], Loading]]:
    """Opens loaders of a disk on which a chunk takes so many seconds."""
    made: list[Loading] = []

    def open_one(chunk_s: float) -> Loading:
        made.append(Loading(chunk_s))
        return made[-1]

    yield open_one
    for each in made:
        for _ in range(100):
            each.disk.go.release()
        assert each.loader.close(30)


@pytest.fixture
def loading(opened: Callable[[float], Loading]) -> Loading:
    """Of a disk that is so slow that chunks are read one by one."""
    return opened(0.004)


def test_chunks_get_into_their_blocks_from_the_end(loading: Loading) -> None:
    loads = [wanted(number) for number in (3, 4, 5)]
    loading.loader.load(loads)
    loading.go_on(3)
    assert loading.disk.reads == [5, 4, 3]
    assert {load.state for load in loads} == {LoadState.LOADED}
    for cache in loading.rows:
        assert (cache[3:6] == [[3], [4], [5]]).all()
        assert not cache[:3].any()
        assert not cache[6:].any()
    assert (loading.loader.loaded, loading.loader.loaded_bytes) == (3, 24)


def test_a_reactive_load_goes_before_the_next_chunk_of_a_proactive_one(loading: Loading) -> None:
    proactive = [wanted(number, level=10, sequence=1) for number in range(1, 6)]
    loading.loader.load(proactive)
    loading.disk.wait_for_read()
    loading.loader.load([wanted(20, level=0, sequence=2)])
    loading.go_on(6)
    assert loading.disk.reads == [5, 20, 4, 3, 2, 1]
    assert loading.reported[:2] == [[5], [20]]


def test_a_quick_disk_reads_chunks_of_one_sequence_together(opened: Callable[[float], Loading]) -> None:
    made = opened(0.0001)
    blocker = [wanted(31, level=0)]  # so that all others are queued when the first group of them is chosen
    numbers = [number for number in range(21) if number != 13]
    others = [wanted(number, level=10, sequence=1) for number in numbers]
    last = [wanted(number, level=10, sequence=2) for number in (21, 22)]
    made.loader.load([*blocker, *others, *last])
    made.go_on(23)
    assert made.disk.groups == [1, 16, 4, 2]
    assert [len(each) for each in made.reported] == [1, 16, 4, 2], "each group is handed over once"
    assert made.disk.reads == [31, *reversed(numbers), 22, 21]
    backwards = numbers[::-1]
    assert made.disk.following == [backwards[:16], [*backwards[16:], 22, 21], [22, 21], []]
    assert all((cache[numbers] == np.array(numbers)[:, None]).all() for cache in made.rows)


def test_a_group_takes_no_longer_than_it_should(opened: Callable[[float], Loading]) -> None:
    made = opened(0.002)
    made.loader.load([wanted(number) for number in range(5)])
    made.go_on(5)
    assert made.disk.groups[0] == 2, "three would be read for 6 milliseconds"


def test_chunks_get_into_blocks_in_any_order(opened: Callable[[float], Loading]) -> None:
    made = opened(0.0001)
    loads = [wanted(number) for number in range(6)]
    for load, block in zip(loads, (9, 3, 7, 1, 20, 11), strict=True):
        load.block = block
    made.loader.load(loads)
    made.go_on(6)
    for number, load in enumerate(loads):
        assert all((cache[load.block] == number).all() for cache in made.rows)
    assert sum(int(cache.any(axis=1).sum()) for cache in made.rows) == 5 * len(SIZES), "no other was written"


def test_a_load_becomes_as_urgent_as_who_waits_for_it(loading: Loading) -> None:
    first, second, third = (wanted(number, level=10, sequence=number) for number in (1, 2, 3))
    loading.loader.load([first, second, third])
    loading.disk.wait_for_read()
    third.urgency = (0, True, 4, -3)
    loading.loader.load([third])
    loading.go_on(3)
    assert loading.disk.reads == [1, 3, 2]


def test_only_what_has_not_started_can_be_withdrawn(loading: Loading) -> None:
    started, queued = wanted(2), wanted(1)
    loading.loader.load([started, queued])
    loading.disk.wait_for_read()
    assert not loading.loader.withdraw(started)
    assert loading.loader.withdraw(queued)
    assert not loading.loader.withdraw(queued)
    loading.go_on(1)
    assert (loading.reported, loading.disk.reads) == ([[2]], [2])
    assert queued.state is LoadState.WITHDRAWN


def test_a_damaged_chunk_fails_alone(loading: Loading) -> None:
    loading.disk.damaged = {4}
    loads = {number: wanted(number) for number in (2, 3, 4, 5, 13)}
    loading.loader.load(list(loads.values()))
    loading.go_on(len(loads))
    failed = {number for number, load in loads.items() if load.state is LoadState.FAILED}
    assert failed == {4, 13}
    assert (loading.rows[0][[2, 3, 5]] == [[2], [3], [5]]).all()
    assert loading.loader.failed == 2


def test_an_unexpected_error_fails_the_loads_and_the_thread_goes_on(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ArenaBytes, "decode", lambda *_: 1 / 0)
        broken = wanted(1)
        loading.loader.load([broken])
        loading.go_on(1)
    assert broken.state is LoadState.FAILED
    sound = wanted(2)
    loading.loader.load([sound])
    loading.go_on(1)
    assert sound.state is LoadState.LOADED


def test_a_read_that_takes_longer_than_it_should_makes_io_dearer(loading: Loading) -> None:
    loading.loader.load([wanted(1)])
    loading.disk.wait_for_read()
    assert loading.loader.io_cost() == LinearCost(0.004, 0.0)
    loading.now = 5.0
    assert loading.loader.io_cost().seconds(0, 1) == pytest.approx(5.0)
    loading.go_on(1)
    assert 0.004 < loading.loader.io_cost().seconds(0, 1) < 5.0


def test_closing_during_a_load_drops_the_others(loading: Loading) -> None:
    loads = [wanted(number, sequence=number) for number in (1, 2)]
    loading.loader.load(loads)
    loading.disk.wait_for_read()
    assert not loading.loader.close(0.0), "a read of the disk is going on"
    loading.disk.go.release()
    assert loading.loader.close(30)
    assert loading.reported == [[1]]
    assert loads[1].state is LoadState.QUEUED
