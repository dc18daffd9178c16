"""Doubles of the arena and of the swapper: what each KV block holds is known and checked."""

from __future__ import annotations

from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.runtime.kv.swap.chunks import ChunkLoad, LoadState, OutgoingChunk, SwapOut
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.scheduler.launch_decision import ScheduledKernel
from agentrt.runtime.scheduler.scheduler import Scheduler
from agentrt.runtime.scheduler.sequence import Sequence
from tests.runtime.scheduler.machine import BLOCK, Kernel, Machine

GARBAGE = (-1,) * BLOCK


@dataclass
class FakeSwapper:
    """Ends loads and copies blocks when a test says so."""

    contents: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """What each block of the arena holds, as :func:`content` says."""
    stored: dict[tuple[str, bytes], tuple[int, ...]] = field(default_factory=dict)
    queue: list[ChunkLoad] = field(default_factory=list)
    outgoing: list[tuple[SwapOut, OutgoingChunk]] = field(default_factory=list)
    swap_outs: list[SwapOut] = field(default_factory=list)
    cost: LinearCost = field(default_factory=lambda: LinearCost(0.0, 0.0))
    in_flight: list[ChunkLoad] = field(default_factory=list)

    def locate(self, app: str, block_hash: bytes) -> int | None:
        return 100 if (app, block_hash) in self.stored else None

    def stores(self, app: str, block_hash: bytes) -> bool:
        on_the_way = any(out.app == app and chunk.block_hash == block_hash for out, chunk in self.outgoing)
        return on_the_way or (app, block_hash) in self.stored

    def load(self, loads: AbstractSequence[ChunkLoad]) -> None:
        for load in loads:
            assert load.state is LoadState.QUEUED or load in self.in_flight
            if load.state is LoadState.QUEUED and load not in self.queue:
                self.queue.append(load)

    def withdraw(self, load: ChunkLoad) -> bool:
        if load.state is not LoadState.QUEUED:
            return False
        load.state = LoadState.WITHDRAWN
        self.queue.remove(load)
        return True

    def io_cost(self) -> LinearCost:
        return self.cost

    def swap_out(self, swap_out: SwapOut) -> None:
        self.swap_outs.append(swap_out)
        self.outgoing += [(swap_out, chunk) for chunk in swap_out.chunks]

    def start(self) -> ChunkLoad:
        """Start the most urgent load: its block holds anything until it ends."""
        load = min(self.queue, key=lambda load: load.urgency)
        self.queue.remove(load)
        load.state = LoadState.STARTED
        self.contents[load.block] = GARBAGE
        self.in_flight.append(load)
        return load

    def end(self, load: ChunkLoad, *, damaged: bool = False) -> ChunkLoad:
        """End a load that was started; a damaged chunk is not stored any more."""
        self.in_flight.remove(load)
        content = self.stored.get((load.app, load.block_hash))
        if damaged or content is None:
            self.stored.pop((load.app, load.block_hash), None)
            load.state = LoadState.FAILED
        else:
            self.contents[load.block] = content
            load.state = LoadState.LOADED
        return load

    def copy(self) -> list[int]:
        """Copy the next block that is swapped out, and return it."""
        out, chunk = self.outgoing.pop(0)
        self.stored[out.app, chunk.block_hash] = self.contents[chunk.block]
        return [chunk.block]


@dataclass
class SwappingMachine(Machine):
    """A machine whose kernels read and write the blocks of the arena, and check what they read."""

    def _new_scheduler(self, **options: Any) -> Scheduler:
        self.begins: dict[int, int] = {}
        self.swapper = FakeSwapper()
        return super()._new_scheduler(swapper=self.swapper, **options)

    def schedule(self) -> list[ScheduledKernel]:
        decisions = super().schedule()
        for decision in decisions:
            for chunk in self.running[decision.role].chunks:
                self.begins[id(chunk)] = chunk.sequence.computed_tokens
                self._check_read(chunk.sequence)
                self._check_written(chunk.sequence, chunk.length + len(chunk.draft))
        return decisions

    def _end_kernel(self, kernel: Kernel) -> None:
        for sequence, length, _, draft, _ in kernel.chunks:
            end = sequence.computed_tokens + length
            known = [*sequence.tokens[:end], *draft]
            for place in range(sequence.computed_tokens // BLOCK, -(-len(known) // BLOCK)):
                self.swapper.contents[sequence.blocks[place]] = content(known, place)

    def end_load(self, load: ChunkLoad, *, damaged: bool = False) -> None:
        self.scheduler.loads.complete([self.swapper.end(load, damaged=damaged)], self.now)
        self.scheduler.check_integrity()

    def copy_one(self) -> None:
        self.scheduler.swap_outs.release(self.swapper.copy())
        self.scheduler.check_integrity()

    def load_all(self) -> None:
        """Load everything that is queued, and what that causes to be queued."""
        while self.swapper.queue or self.swapper.in_flight:
            self.end_load(self.swapper.in_flight[0] if self.swapper.in_flight else self.swapper.start())

    def _check_read(self, sequence: Sequence) -> None:
        for place in range(-(-sequence.computed_tokens // BLOCK)):
            there = content(sequence.tokens[: sequence.computed_tokens], place)
            assert self.swapper.contents[sequence.blocks[place]][: len(there)] == there, "a block of others"

    def _check_written(self, sequence: Sequence, length: int) -> None:
        begin, end = sequence.computed_tokens // BLOCK, -(-(sequence.computed_tokens + length) // BLOCK)
        loading = {load.block for load in [*self.swapper.queue, *self.swapper.in_flight]}
        swapped = {chunk.block for _, chunk in self.swapper.outgoing}
        for block in sequence.blocks[begin:end]:
            assert block not in loading, "a kernel writes to a block that is being loaded"
            assert block not in swapped, "a kernel writes to a block that is being copied"
            assert block not in self.pool._hash_of, "a kernel writes to a cached block"


def content(tokens: AbstractSequence[int], place: int) -> tuple[int, ...]:
    """What a block holds: its tokens, the first of which depends on all before."""
    first, *rest = tokens[place * BLOCK : (place + 1) * BLOCK]
    return (hash((first, *tokens[: place * BLOCK])), *rest)
