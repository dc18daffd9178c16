"""Loads of stored chunks into the blocks of running sequences (LLMS §3.3): a prompt is read from its end and
computed from its beginning, until both meet.

When a sequence is admitted, each of its blocks that is stored, and not in the arena, is queued to be loaded.
At every block boundary of its prefill the sequence takes what is in the arena by then, waits for a chunk that
is being loaded, or, where Eq. 4 finds that quicker, withdraws the load and computes the block. A chunk that
turns out to be damaged is computed like any other, and the sequence skips over those behind it.

Chunks are stored ahead of time, when a request ends: before its memory is needed (§3.4).
"""

from __future__ import annotations

from collections import Counter, abc
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..kv.block_pool import BlockPool
from ..kv.swap.chunks import ChunkLoad, ChunkSwapper, LoadState, OutgoingChunk, SwapOut
from ..kv.swap.costs import LinearCost, recomputed_chunks
from .sequence import Sequence, SequenceState

_LEAST_WAIT_S: Final = 0.005
"""Seconds after which a sequence that waits for a chunk decides anew at the earliest."""


@dataclass(eq=False)
class ChunkLoads:
    """The loads in progress, by block hash: sequences with one prefix share its loads.

    A load holds its block until it has ended, also if no sequence waits for it any more: the swapper may be
    writing to it.
    """

    pool: BlockPool
    block_tokens: int
    swapper: ChunkSwapper
    recompute_cost: Callable[[int], LinearCost]
    """Returns T_re, in seconds by blocks, behind a number of tokens."""
    begun: int = 0
    """Sequences for which chunks were loaded."""
    recomputed: int = 0
    """Stored chunks that were computed: because it was quicker (Eq. 4), or because they were damaged."""
    switch_s: float = 0.0
    """Seconds from the admission of sequences until nothing was being loaded for them any more."""
    next_decision: float = float("inf")
    """When a sequence that waits may find it quicker to compute its chunk; infinite if none waits."""
    _loads: dict[bytes, ChunkLoad] = field(default_factory=dict)
    _waiting: dict[ChunkLoad, set[Sequence]] = field(default_factory=dict)
    _began: dict[Sequence, float] = field(default_factory=dict)

    @property
    def held_blocks(self) -> list[int]:
        """The blocks of all loads in progress."""
        return [load.block for load in self._loads.values()]

    def begin_round(self) -> None:
        """Begin a round of decisions, in which every waiting sequence decides anew."""
        self.next_decision = float("inf")

    def begin(self, sequence: Sequence, hashes: abc.Sequence[bytes], now: float) -> None:
        """Queue what is stored of an admitted sequence, behind its cached prefix, to be loaded.

        ``hashes`` are those of the blocks that it may take. Those in the arena replace the blocks that were
        allocated for them.
        """
        queued: list[ChunkLoad] = []
        for position in range(sequence.computed_tokens // self.block_tokens, len(hashes)):
            if self.pool.find(hashes[position]) is not None:
                self._take_cached(sequence, position, hashes[position])
            else:
                self._begin_one(sequence, position, hashes[position], queued)
        if sequence.loads:
            self.begun += 1
            self._began[sequence] = now
            self.swapper.load(queued)

    def tokens_to_compute(
        self, sequence: Sequence, length: int, hashes: abc.Sequence[bytes], now: float
    ) -> int:
        """Return how many of the next ``length`` tokens of a prompt to compute now; 0 to wait for a chunk.

        The next block is not in the arena. The tokens end before the first one that is, or is being loaded.
        """
        first = sequence.computed_tokens // self.block_tokens
        end = min(first + -(-length // self.block_tokens), len(hashes))
        stop = next((at for at in range(first, end) if self._is_coming(sequence, at, hashes[at])), None)
        tokens = length if stop is None else (stop - first) * self.block_tokens
        if stop == first:
            tokens = self.block_tokens * self._take_over(sequence, length // self.block_tokens, now)
        if not tokens:
            one_s = self.recompute_cost(sequence.computed_tokens).seconds(1)
            self.next_decision = min(self.next_decision, now + max(one_s, _LEAST_WAIT_S))
        sequence.state = SequenceState.PREFILL if tokens else SequenceState.LOADING
        return tokens

    def complete(self, loads: Iterable[ChunkLoad], now: float) -> None:
        """Note that ``loads`` have ended: each sequence that waits gets what was loaded, and it is cached."""
        for load in loads:
            if load.state is LoadState.LOADED:
                self.pool.cache(load.block, load.block_hash, load.app)
                for sequence in self._waiting[load]:
                    self._take_cached(sequence, load.position, load.block_hash)
            else:
                self.recomputed += 1
            self._end(load, now)

    def abandon(self, sequence: Sequence) -> None:
        """Stop waiting on behalf of a sequence that loses its blocks. Loads that have started go on."""
        self._began.pop(sequence, None)
        for load in sequence.loads.values():
            self._waiting[load].discard(sequence)
            if not self._waiting[load] and self.swapper.withdraw(load):
                self._end(load, 0.0)
        sequence.loads.clear()

    def released_by(self, sequences: Collection[Sequence]) -> list[int]:
        """Return the blocks of the loads that would be withdrawn if ``sequences`` were abandoned."""
        return [
            load.block
            for load, waiting in self._waiting.items()
            if load.state is LoadState.QUEUED and waiting.issubset(sequences)
        ]

    def _begin_one(
        self, sequence: Sequence, position: int, block_hash: bytes, queued: list[ChunkLoad]
    ) -> None:
        """Have a sequence wait for a chunk, if it is stored; ``queued`` receives loads for the swapper."""
        urgency = (*sequence.order, -position)
        load = self._loads.get(block_hash)
        if load is None:
            io_bytes = self.swapper.locate(sequence.app, block_hash)
            if io_bytes is None:
                return
            block = sequence.blocks[position]
            self.pool.share([block])
            load = ChunkLoad(sequence.app, block_hash, position, block, io_bytes, urgency)
            self._loads[block_hash] = load
            self._waiting[load] = set()
            queued.append(load)
        elif urgency < load.urgency:
            load.urgency = urgency
            queued.append(load)
        self._waiting[load].add(sequence)
        sequence.loads[position] = load

    def _is_coming(self, sequence: Sequence, position: int, block_hash: bytes) -> bool:
        return position in sequence.loads or self.pool.find(block_hash) is not None

    def _take_over(self, sequence: Sequence, most: int, now: float) -> int:
        """Return how many of the next blocks to compute instead, which are no longer loaded or waited for."""
        pending = list(self._next_loads(sequence))
        recompute = self.recompute_cost(sequence.computed_tokens)
        io_bytes = [load.io_bytes for load in pending]
        chosen = recomputed_chunks(io_bytes, recompute, self.swapper.io_cost(), most=most)
        for taken, load in enumerate(pending[:chosen]):
            if self.swapper.withdraw(load):
                self._end(load, now)
            elif not self._leave(sequence, load, now):
                return taken
            self.recomputed += 1
        return chosen

    def _next_loads(self, sequence: Sequence) -> Iterator[ChunkLoad]:
        """The loads of the next blocks without a gap."""
        position = sequence.computed_tokens // self.block_tokens
        while (load := sequence.loads.get(position)) is not None:
            yield load
            position += 1

    def _leave(self, sequence: Sequence, load: ChunkLoad, now: float) -> bool:
        """Stop waiting for a load that has started; return whether there is another block to compute in."""
        if sequence.blocks[load.position] == load.block:
            if not self.pool.free:
                return False
            self._replace_block(sequence, load.position, self.pool.allocate(1)[0])
        self._waiting[load].discard(sequence)
        self._stop_waiting(sequence, load, now)
        return True

    def _take_cached(self, sequence: Sequence, position: int, block_hash: bytes) -> None:
        (block,) = self.pool.acquire_cached([block_hash])
        self._replace_block(sequence, position, block)

    def _replace_block(self, sequence: Sequence, position: int, block: int) -> None:
        self.pool.release([sequence.blocks[position]])
        sequence.blocks[position] = block

    def _end(self, load: ChunkLoad, now: float) -> None:
        """Remove a load that has ended or was withdrawn."""
        del self._loads[load.block_hash]
        for sequence in self._waiting.pop(load):
            self._stop_waiting(sequence, load, now)
        self.pool.release([load.block])

    def _stop_waiting(self, sequence: Sequence, load: ChunkLoad, now: float) -> None:
        del sequence.loads[load.position]
        if not sequence.loads:
            self.switch_s += now - self._began.pop(sequence)


@dataclass(eq=False)
class SwapOuts:
    """Holds the blocks of ended requests until the swapper has copied them.

    A cached block that is held is never written, so that any thread may copy it meanwhile.
    """

    pool: BlockPool
    block_tokens: int
    swapper: ChunkSwapper
    _blocks: Counter[int] = field(default_factory=Counter)
    """The blocks that are held, and how often."""

    @property
    def held_blocks(self) -> list[int]:
        """The blocks that are held, as often as they are."""
        return list(self._blocks.elements())

    def begin(self, sequence: Sequence, hashes: abc.Sequence[bytes]) -> None:
        """Hand over the complete blocks of an ended request: to store those that are not stored yet.

        ``hashes`` are those of all its complete blocks that may be shared. Blocks that the arena has lost
        meanwhile are left out.
        """
        chunks: list[OutgoingChunk] = []
        for position, block_hash in enumerate(hashes):
            if self.swapper.stores(sequence.app, block_hash):
                continue
            for block in self.pool.acquire_cached([block_hash]):
                chunks.append(OutgoingChunk(block_hash, position, block))
                self._blocks[block] += 1
        assert sequence.block_hashes is not None
        attention = sequence.attention
        self.swapper.swap_out(
            SwapOut(
                sequence.app,
                sequence.context_id,
                tuple(hashes),
                tuple(chunks),
                sequence.block_hashes.salt,
                () if attention is None else tuple(attention.of_blocks(self.block_tokens, len(hashes))),
            )
        )

    def release(self, blocks: Iterable[int]) -> None:
        """Note that ``blocks`` have been copied."""
        for block in blocks:
            self._blocks[block] -= 1
            if not self._blocks[block]:
                del self._blocks[block]
            self.pool.release([block])
