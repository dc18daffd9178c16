"""Levels of the chunks of whole contexts, over any sequence of their requests."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agentrt.runtime.kv.compression.block_attention import BlockAttention
from agentrt.runtime.kv.compression.codec import BlockCodec
from agentrt.runtime.kv.compression.levels import ContextCompression
from agentrt.runtime.kv.store.chunk_files import Chunk, ChunkLocation
from agentrt.runtime.kv.store.store import ContextStore
from agentrt.runtime.kv.swap.chunks import OutgoingChunk, SwapOut
from agentrt.runtime.kv.swap.swapper import Swapper
from tests.hypothesis_profiles import examples
from tests.runtime.kv.compression.made_up_blocks import formats_of, layout_of, random_rows

APP = "notes"
LAYOUT = layout_of("u8", layers=1, heads=1, size=64)
CODEC = BlockCodec(LAYOUT)
LOSSES = {8: 0.0, 4: 0.004, 2: 0.05}
RATIO, TOLERANCE = 0.5, 1.0
MOST = 6
"""Blocks of a context, so that all choices can be tried."""
ROWS = random_rows(LAYOUT, MOST)
WHOLE = CODEC.payload_bytes(8, 1)
SIZES = {level: CODEC.payload_bytes(level, MOST) for level in LOSSES}

Path_ = tuple[int, ...]
"""The blocks of a context by what is in them; equal beginnings have equal hashes."""


def hashes_of(path: Path_) -> list[bytes]:
    return [hashlib.blake2b(bytes(path[:end]), digest_size=16).digest() for end in range(1, len(path) + 1)]


class Contexts:
    """A swapper whose chunks get levels, over a store, a memory tier, or both."""

    def __init__(self, folder: Path | None, memory_bytes: int, ratio: float = RATIO) -> None:
        self.store = None if folder is None else ContextStore(folder, b"model")
        self.swapper = Swapper(
            ROWS,
            CODEC,
            memory_bytes=memory_bytes,
            store=self.store,
            levels=ContextCompression(CODEC, LOSSES, ratio, TOLERANCE).levels,
        )
        self.swapper.start(lambda loads: None, lambda blocks: None)

    def call(self, path: Path_, attention: list[BlockAttention]) -> None:
        """End a request of the context ``path``, and wait until everything is stored."""
        self.end(path, attention)
        self.wait()

    def end(self, path: Path_, attention: list[BlockAttention]) -> None:
        """End a request of the context ``path``."""
        hashes = hashes_of(path)
        new = [
            OutgoingChunk(each, at, at)
            for at, each in enumerate(hashes)
            if not self.swapper.stores(APP, each)
        ]
        salt = b"" if self.store is None else self.store.salts.salt_for(APP)
        self.swapper.swap_out(SwapOut(APP, "", tuple(hashes), tuple(new), salt, tuple(attention)))

    def wait(self) -> None:
        saver = self.swapper._saver
        for _ in range(100):
            done = threading.Event()
            saver._encoding.submit(lambda done=done: saver._writing.submit(done.set))  # type: ignore[misc]
            assert done.wait(30)
            if not saver.on_the_way:
                return
        raise AssertionError("chunks are lowered for ever")

    def find(self, block_hash: bytes) -> Chunk | ChunkLocation:
        location = self.store and self.store.locate(APP, block_hash)
        found = location or self.swapper._tier.peek(APP, block_hash)
        assert found is not None
        return found

    def levels(self, path: Path_) -> list[int]:
        return [self.find(each).level for each in hashes_of(path)]

    def close(self) -> None:
        self.swapper.close()
        if self.store is not None:
            self.store.close()


def bytes_of(levels: tuple[int, ...] | list[int]) -> int:
    return sum(CODEC.payload_bytes(level, at) for at, level in enumerate(levels))


def least_loss(densities: list[float], most: list[int]) -> float:
    """Try all levels within the budget of a context whose first chunk is protected."""
    budget = int(RATIO * WHOLE * len(densities))
    tried = (
        (8, *levels)
        for levels in itertools.product(*[[level for level in LOSSES if level <= cap] for cap in most[1:]])
    )
    losses = [loss_of(densities, levels) for levels in tried if bytes_of(levels) <= budget]
    return min(losses, default=loss_of(densities, [8, *[2] * (len(densities) - 1)]))


def loss_of(densities: list[float], levels: tuple[int, ...] | list[int]) -> float:
    return sum(LOSSES[level] * density for level, density in zip(levels, densities, strict=True))


class Ranked(RuleBasedStateMachine):
    """Contexts that grow, branch, are called again and are opened again."""

    @initialize(on_disk=st.booleans(), in_memory=st.booleans())
    def begin(self, on_disk: bool, in_memory: bool) -> None:
        self.folder = tempfile.TemporaryDirectory() if on_disk or not in_memory else None
        self.memory_bytes = 10**9 if in_memory else 0
        self.contexts = self._open()
        self.paths: list[Path_] = []
        self.densities: dict[bytes, float] = {}
        self.stored: dict[bytes, Chunk | ChunkLocation] = {}

    def _open(self) -> Contexts:
        return Contexts(None if self.folder is None else Path(self.folder.name), self.memory_bytes)

    @rule(
        data=st.data(),
        new=st.lists(st.integers(0, 2), max_size=4),
        shares=st.lists(st.floats(0, 1), min_size=MOST, max_size=MOST),
        measured=st.lists(st.floats(2**-10, 1), min_size=MOST, max_size=MOST),
        scored=st.sampled_from([True, True, True, False]),
    )
    def call(
        self,
        data: st.DataObject,
        new: list[int],
        shares: list[float],
        measured: list[float],
        scored: bool,
    ) -> None:
        begun = data.draw(st.sampled_from(self.paths)) if self.paths else ()
        path = (*begun[: data.draw(st.integers(0, len(begun)))], *new)[:MOST]
        if not path:
            return
        hashes = hashes_of(path)
        attention = [
            BlockAttention(density, share if each in self.stored else 1.0) if scored else BlockAttention()
            for each, density, share in zip(hashes, measured, shares, strict=False)
        ]
        most = [self.stored[each].level if each in self.stored else 8 for each in hashes]
        self.contexts.call(path, attention)
        self.paths.append(path)
        self._check(path, attention, most)

    def _check(self, path: Path_, attention: list[BlockAttention], most: list[int]) -> None:
        hashes, levels = hashes_of(path), self.contexts.levels(path)
        for each, of_block in zip(hashes, attention, strict=True):
            self.densities[each] = of_block.joined(self.densities.get(each, 0.0))
        densities = [self.densities[each] for each in hashes]
        assert all(level <= cap for level, cap in zip(levels, most, strict=True)), "never up"
        if any(densities):
            assert loss_of(densities, levels) <= least_loss(densities, most) + 1e-9
            free = [each for at, each in enumerate(zip(densities, levels, most, strict=True)) if at]
            for (a, level, cap), (b, other, other_cap) in itertools.combinations(free, 2):
                if cap == other_cap == 8:
                    assert level >= other if a > b else level <= other
        for each in self.paths:
            found = self.contexts.levels(each)
            lowest = [8, *[2] * (len(each) - 1)]
            assert bytes_of(found) <= max(RATIO * WHOLE * len(each), bytes_of(lowest)), "of every context"
        self.stored = {each: self.contexts.find(each) for path in self.paths for each in hashes_of(path)}
        if (store := self.contexts.store) is not None:
            overhead = store._chunks._files.overhead
            payloads = [
                store.read(found) for found in self.stored.values() if isinstance(found, ChunkLocation)
            ]
            assert {chunk.block_hash for chunk in payloads} == self.stored.keys()
            total = sum(len(chunk.payload) + overhead for chunk in payloads)
            assert store.statistics().chunk_bytes == total, "files have nothing else"

    @precondition(lambda self: self.folder is not None)
    @rule()
    def open_again(self) -> None:
        self.contexts.close()
        self.contexts = self._open()
        for block_hash, before in self.stored.items():
            found = self.contexts.find(block_hash)
            assert (found.level, found.density) == (before.level, np.float16(before.density))
            self.densities[block_hash] = found.density

    def teardown(self) -> None:
        if hasattr(self, "contexts"):
            self.contexts.close()
            if self.folder is not None:
                self.folder.cleanup()


TestRanked = Ranked.TestCase
TestRanked.settings = examples(100, stateful_step_count=12)


@pytest.fixture(params=["on disk", "in memory", "both"])
def contexts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Contexts]:
    folder, memory_bytes = (
        None if request.param == "in memory" else tmp_path,
        0 if request.param == "on disk" else 10**6,
    )
    opened = Contexts(folder, memory_bytes, ratio=0.75)
    yield opened
    opened.close()


def test_what_turns_out_to_carry_less_gives_its_bits_to_what_carries_more(contexts: Contexts) -> None:
    contexts.call((1, 2, 3, 4), [BlockAttention(each, 1.0) for each in (1.0, 0.3, 0.2, 0.1)])
    before = contexts.levels((1, 2, 3, 4))
    assert before == sorted(before, reverse=True)
    now = [BlockAttention(0.01, 0.9), BlockAttention(0.01, 0.9), BlockAttention(0.4, 0.9)]
    contexts.call((1, 2, 3, 4, 5), [now[0], now[1], now[2], now[2], BlockAttention(0.5, 1.0)])
    after = contexts.levels((1, 2, 3, 4, 5))
    assert after[1] < before[1]
    assert after[4] > after[1]


@pytest.mark.parametrize("element", ["bf16", "u8"])
def test_a_chunk_that_is_lowered_is_about_what_it_would_be_from_the_arena(element: str) -> None:
    layout = layout_of(element, layers=1, heads=1, size=64)
    codec, rows = BlockCodec(layout), random_rows(layout, 4)
    direct = codec.encode(rows, [4] * 4, range(1, 5))
    between = [np.empty_like(row) for row in rows]
    codec.decode(codec.encode(rows, [8] * 4, range(1, 5)), 8, between)
    lowered = codec.encode(between, [4] * 4, range(1, 5))
    errors = []
    for payloads in (direct, lowered):
        out = [np.empty_like(row) for row in rows]
        codec.decode(payloads, 4, out)
        errors.append(
            sum(
                float(((format.numbers(a) - format.numbers(b)) ** 2).sum())
                for format, a, b in zip(formats_of(layout), rows, out, strict=True)
            )
        )
    assert errors[1] <= 1.05 * errors[0]


def test_new_chunks_are_written_between_the_files_of_those_that_are_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = Contexts(tmp_path, 0, ratio=1.0)
    for end in (2, 3, 4):
        contexts.call((1, 2, 3, 4)[:end], [BlockAttention(1.0, 1.0)] * end)
    assert contexts.levels((1, 2, 3, 4)) == [8] * 4
    contexts.close()
    contexts = Contexts(tmp_path, 0, ratio=0.6)
    assert contexts.store is not None
    chunks, go, changes = contexts.store._chunks, threading.Event(), list[str]()

    def record(name: str) -> None:
        change = getattr(chunks, name)

        def changed(*arguments: Any) -> Any:
            assert go.wait(30)
            changes.append(name)
            return change(*arguments)

        monkeypatch.setattr(chunks, name, changed)

    for name in ("append", "rewrite"):
        record(name)
    contexts.end((1, 2, 3, 4, 5, 6), [BlockAttention(1.0, 1.0)] * 6)
    contexts.end((9, 9), [BlockAttention(1.0, 1.0)] * 2)
    go.set()
    contexts.wait()
    assert changes == ["append", "rewrite", "append", "rewrite", "rewrite"]
    assert bytes_of(contexts.levels((1, 2, 3, 4, 5, 6))) <= 0.6 * WHOLE * 6
    contexts.close()


def test_a_disk_that_fails_leaves_levels_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = Contexts(tmp_path, 0, ratio=0.75)
    contexts.call((1, 2, 3, 4), [BlockAttention(1.0, 1.0)] * 4)
    before = contexts.levels((1, 2, 3, 4))
    assert contexts.store is not None

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(contexts.store._chunks, "rewrite", fail)
        contexts.call((1, 2, 3, 4, 5, 6), [BlockAttention(0.01, 1.0)] * 4 + [BlockAttention(1.0, 1.0)] * 2)
    assert contexts.levels((1, 2, 3, 4)) == before
    assert "cannot be compressed further" in caplog.text
    contexts.call((1, 2, 3, 4, 5, 6), [BlockAttention(0.01, 1.0)] * 4 + [BlockAttention(1.0, 1.0)] * 2)
    levels = contexts.levels((1, 2, 3, 4, 5, 6))
    assert bytes_of(levels) <= 0.75 * WHOLE * 6, "the next request makes up for it"
    contexts.close()
