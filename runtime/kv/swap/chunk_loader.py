"""Loads chunks into the arena on a thread of its own, the most urgent first (LLMS §3.4, Load)."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from agentrt.errors import AgentRTError

from ..compression.codec import BlockCodec
from ..saved_contexts import Rows
from ..store.chunk_files import Chunk
from .chunks import ChunkLoad, LoadState
from .costs import LinearCost, RefinedCost

_GROUP: Final = 16
"""Chunks that are read, decoded, and reported together, at most."""
_GROUP_S: Final = 0.005
"""Seconds that reading a group should take at most: a slow disk's chunks are read one by one."""
_UNMEASURED: Final = LinearCost(2e-4, 1e-9)
"""T_IO until it was measured: 1 GB/s."""

_log: Final = logging.getLogger(__name__)

ReadChunks: TypeAlias = Callable[[Sequence[ChunkLoad], Sequence[ChunkLoad]], Sequence[Chunk | AgentRTError]]
"""Returns the chunk of each load, or why it cannot be read; the second ones are likely to be read next."""
OnEnded: TypeAlias = Callable[[Sequence[ChunkLoad]], None]


class ChunkLoader:
    """A queue of loads, and the thread that reads, decodes and writes them into the arena. Thread-safe.

    Loads of one sequence are done in groups; a more urgent load goes before the next group.
    """

    def __init__(
        self,
        rows: Sequence[Rows],
        codec: BlockCodec,
        read: ReadChunks,
        measure: Callable[[], LinearCost | None],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``rows`` is the memory of the arena; ``measure`` measures T_IO, before the first load.

        ``measure`` and ``read`` are called on the thread of this object.
        """
        self._clock = clock
        self._rows = rows
        self._codec = codec
        self._read = read
        self._measure = measure
        self._changed = threading.Condition()
        self._queue: list[tuple[tuple[int, ...], int, ChunkLoad]] = []
        self._numbers = itertools.count()
        self._closing = False
        self._cost = RefinedCost(_UNMEASURED)
        self._group_began: float | None = None
        self._group_io: list[int] = []
        self._on_ended: OnEnded = lambda loads: None
        self._thread = threading.Thread(target=self._run, name="agentrt-load", daemon=True)
        self.loaded = self.loaded_bytes = self.failed = 0

    def start(self, on_ended: OnEnded) -> None:
        """Start the thread, which calls ``on_ended`` with loads that have ended."""
        self._on_ended = on_ended
        self._thread.start()

    def load(self, loads: Sequence[ChunkLoad]) -> None:
        """See :meth:`ChunkSwapper.load`."""
        with self._changed:
            for load in loads:
                heapq.heappush(self._queue, (load.urgency, next(self._numbers), load))
            self._changed.notify()

    def withdraw(self, load: ChunkLoad) -> bool:
        """See :meth:`ChunkSwapper.withdraw`."""
        with self._changed:
            if load.state is not LoadState.QUEUED:
                return False
            load.state = LoadState.WITHDRAWN
            return True

    def io_cost(self) -> LinearCost:
        """See :meth:`ChunkSwapper.io_cost`. A read that takes longer than it should counts from now on."""
        with self._changed:
            cost, began = self._cost.present, self._group_began
            expected = self._io_seconds(self._group_io)
        if began is None or expected <= 0:
            return cost
        return cost.times(max(1.0, (self._clock() - began) / expected))

    def close(self, timeout_s: float) -> bool:
        """Drop what is queued and end the thread; return whether it has ended after ``timeout_s`` seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        ended = not self._thread.is_alive()
        if ended:
            self._rows = ()  # the memory of the arena
        return ended

    def _run(self) -> None:
        measured = self._measure()
        if measured is not None:
            with self._changed:
                self._cost.measure_again(measured)
        while group := self._next_group():
            try:
                self._load(group)
            except Exception:  # noqa: BLE001 - the loads fail, and their requests go on
                _log.exception("Chunks could not be loaded and are computed again. Please report this.")
                for load in group:
                    load.state = LoadState.FAILED
            finally:
                with self._changed:
                    self._group_began, self._group_io = None, []
            self._on_ended(group)

    def _next_group(self) -> list[ChunkLoad]:
        """Wait for loads and start the first ones of the most urgent sequence; none when closed."""
        with self._changed:
            while not self._closing:
                group: list[ChunkLoad] = []
                while (load := self._start_next(group)) is not None:
                    group.append(load)
                if group:
                    self._group_began = self._clock()
                    self._group_io = [load.io_bytes for load in group]
                    return group
                self._changed.wait()
            return []

    def _following(self) -> list[ChunkLoad]:
        """Return the first loads that are queued."""
        with self._changed:
            return [load for _, _, load in heapq.nsmallest(_GROUP, self._queue)]

    def _start_next(self, group: Sequence[ChunkLoad]) -> ChunkLoad | None:
        """Start the next load if it is of the sequence of ``group``, which is read in time with it."""
        while self._queue and self._queue[0][2].state is not LoadState.QUEUED:
            heapq.heappop(self._queue)
        if not self._queue or len(group) == _GROUP:
            return None
        load = self._queue[0][2]
        if group:
            io_bytes = [each.io_bytes for each in (*group, load)]
            if load.urgency[:-1] != group[0].urgency[:-1] or self._io_seconds(io_bytes) > _GROUP_S:
                return None
        heapq.heappop(self._queue)
        load.state = LoadState.STARTED
        return load

    def _io_seconds(self, io_bytes: Sequence[int]) -> float:
        """Return T_IO of chunks of these bytes; those in memory have none."""
        read = [each for each in io_bytes if each]
        return self._cost.present.seconds(sum(read), len(read))

    def _load(self, group: Sequence[ChunkLoad]) -> None:
        """Read the chunks of ``group`` and write them into the arena."""
        began = self._clock()
        by_level: dict[int, list[tuple[ChunkLoad, Chunk]]] = defaultdict(list)
        for load, found in zip(group, self._read(group, self._following()), strict=True):
            if isinstance(found, Chunk):
                by_level[found.level].append((load, found))
            else:
                self._fail(load, found)
        for level, members in by_level.items():
            self._write(level, members)
        io = [load.io_bytes for load in group if load.io_bytes]
        if io:
            with self._changed:
                self._cost.observe(sum(io), len(io), self._clock() - began)

    def _write(self, level: int, members: list[tuple[ChunkLoad, Chunk]]) -> None:
        """Decode chunks of one level into the arena; where that fails, one by one."""
        members = sorted(members, key=lambda member: member[0].block)
        blocks = [load.block for load, _ in members]
        in_place = blocks == list(range(blocks[0], blocks[0] + len(blocks)))
        decoded = [
            cache[blocks[0] : blocks[0] + len(blocks)]
            if in_place
            else np.empty((len(blocks), cache.shape[1]), np.uint8)
            for cache in self._rows
        ]
        try:
            self._codec.decode([chunk.payload for _, chunk in members], level, decoded)
        except AgentRTError as error:
            if len(members) == 1:
                self._fail(members[0][0], error)
                return
            for member in members:
                self._write(level, [member])
            return
        if not in_place:
            for cache, content in zip(self._rows, decoded, strict=True):
                cache[blocks] = content
        for load, chunk in members:
            load.state = LoadState.LOADED
            self.loaded += 1
            self.loaded_bytes += len(chunk.payload)

    def _fail(self, load: ChunkLoad, error: AgentRTError) -> None:
        load.state = LoadState.FAILED
        self.failed += 1
        _log.warning("A stored chunk cannot be used and is computed again: %s", error)
