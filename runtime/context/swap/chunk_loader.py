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

from ..saved_contexts import Rows
from ..store.chunks import Chunk
from .chunks import ChunkLoad, LoadState
from .codec import ChunkCodec
from .costs import LinearCost, RefinedCost

_GROUP: Final = 8
"""Chunks that are decoded, and reported, together, at most."""
_GROUP_S: Final = 0.005
"""Seconds of reading after which a group is complete: a slow disk's chunks are reported one by one."""
_UNMEASURED: Final = LinearCost(2e-4, 1e-9)
"""T_IO until it was measured: 1 GB/s."""

_log: Final = logging.getLogger(__name__)

ReadChunk: TypeAlias = Callable[[str, bytes], Chunk]
"""Returns the chunk of an app and a hash. Raises AgentRTError or OSError: it cannot be read."""
OnEnded: TypeAlias = Callable[[Sequence[ChunkLoad]], None]


class ChunkLoader:
    """A queue of loads, and the thread that reads, decodes and writes them into the arena. Thread-safe.

    Loads of one sequence are done in groups; a more urgent load goes before the next chunk of a group.
    """

    def __init__(
        self,
        rows: Sequence[Rows],
        codec: ChunkCodec,
        read: ReadChunk,
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
            expected = cost.seconds(sum(self._group_io), len(self._group_io))
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
        while (first := self._next()) is not None:
            group = [first]
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

    def _next(self) -> ChunkLoad | None:
        """Wait for a load and start it; None when closed."""
        with self._changed:
            while not self._closing:
                if (load := self._start_first()) is not None:
                    return load
                self._changed.wait()
            return None

    def _next_of_group(self, first: ChunkLoad) -> ChunkLoad | None:
        """Start the next load if it is of the same sequence as ``first``; None if another is more urgent."""
        with self._changed:
            self._drop_withdrawn()
            if self._closing or not self._queue or self._queue[0][2].urgency[:-1] != first.urgency[:-1]:
                return None
            return self._start_first()

    def _start_first(self) -> ChunkLoad | None:
        self._drop_withdrawn()
        if not self._queue:
            return None
        load = heapq.heappop(self._queue)[2]
        load.state = LoadState.STARTED
        if self._group_began is None:
            self._group_began = self._clock()
        self._group_io.append(load.io_bytes)
        return load

    def _drop_withdrawn(self) -> None:
        while self._queue and self._queue[0][2].state is not LoadState.QUEUED:
            heapq.heappop(self._queue)

    def _load(self, group: list[ChunkLoad]) -> None:
        """Read the first load of ``group``, add further ones to it, and write them all into the arena."""
        began = self._clock()
        by_level: dict[int, list[tuple[ChunkLoad, Chunk]]] = defaultdict(list)
        more: ChunkLoad | None = group[0]
        while more is not None:
            chunk = self._read_one(more)
            if chunk is not None:
                by_level[chunk.level].append((more, chunk))
            complete = len(group) == _GROUP or self._clock() - began > _GROUP_S
            more = None if complete else self._next_of_group(group[0])
            if more is not None:
                group.append(more)
        for level, members in by_level.items():
            self._write(level, members)
        io = [load.io_bytes for load in group if load.io_bytes]
        if io:
            with self._changed:
                self._cost.observe(sum(io), len(io), self._clock() - began)

    def _read_one(self, load: ChunkLoad) -> Chunk | None:
        try:
            return self._read(load.app, load.block_hash)
        except (AgentRTError, OSError) as error:
            self._fail(load, error)
            return None

    def _write(self, level: int, members: list[tuple[ChunkLoad, Chunk]]) -> None:
        """Decode chunks of one level into the arena; where that fails, one by one."""
        decoded = [np.empty((len(members), cache.shape[1]), np.uint8) for cache in self._rows]
        try:
            self._codec.decode([chunk.payload for _, chunk in members], level, decoded)
        except AgentRTError as error:
            if len(members) == 1:
                self._fail(members[0][0], error)
                return
            for member in members:
                self._write(level, [member])
            return
        blocks = [load.block for load, _ in members]
        for cache, content in zip(self._rows, decoded, strict=True):
            cache[blocks] = content
        for load, chunk in members:
            load.state = LoadState.LOADED
            self.loaded += 1
            self.loaded_bytes += len(chunk.payload)

    def _fail(self, load: ChunkLoad, error: Exception) -> None:
        load.state = LoadState.FAILED
        self.failed += 1
        _log.warning("A stored chunk cannot be used and is computed again: %s", error)
