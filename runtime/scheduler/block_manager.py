"""The block manager: block tables and state rows of sequences, prefix cache, contexts that await their tools.

Blocks are shared only where they hold what computing them again would write, up to the last bits of a sum.
Quantised keys depend on which tokens were written together, so there a block whose tokens were written one by
one (an answer's) differs from a prompt's, and only blocks that were filled by a prompt are shared.

In a hybrid model a prefix can be reused only up to a checkpoint of its state (:mod:`.state_rows`), and no
chunks are stored or loaded.
"""

from __future__ import annotations

from collections import Counter, abc
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ..kv.block_pool import BlockPool
from ..kv.eviction_policy import EvictionPolicy, ExpectedReturn
from .batch import Branch, ScheduledChunk
from .chunk_loads import ChunkLoads, SwapOuts
from .sequence import Sequence
from .state_rows import ROWS_PER_SEQUENCE, StateManager
from .tool_pauses import ToolPauses

_PUNCTUAL: Final = 0.5
"""How much longer than expected tools may take until the next turn is late, by what was expected."""
_PUNCTUAL_S: Final = 0.5
"""Seconds that it may take longer in any case."""
_DELAY: Final = 4.0
_LEAST_DELAY_S: Final = 5.0
"""The same until it is no longer expected."""


class AwaitedContext(NamedTuple):
    """The cached blocks of a finished turn whose tools are running, kept for its next turn."""

    app: str
    context_id: str
    blocks: list[int]


@dataclass(kw_only=True)
class BlockManager:
    """Block tables over one pool of KV blocks. Which sequence is evicted is the batch builder's decision."""

    pool: BlockPool
    states: StateManager | None
    """Those of a hybrid model."""
    block_tokens: int
    share: bool
    """Whether there is a prefix cache."""
    quantised_keys: bool
    """Whether a block of keys depends on which of its tokens were written together."""
    share_sampled: bool
    """Whether blocks with sampled tokens may be shared. A sampled token has other bits than the same token in
    a prompt, so that with them an answer depends on what the app was answered before."""
    loads: ChunkLoads
    swap_outs: SwapOuts
    stores_chunks: bool
    """Whether these two move chunks of named apps into and out of ``pool``."""
    pauses: ToolPauses = field(default_factory=ToolPauses)

    @property
    def free_blocks(self) -> int:
        """Blocks that can be allocated without taking them from a sequence."""
        return self.pool.free

    @property
    def cached_blocks(self) -> int:
        """Those of them that the prefix cache still holds."""
        return self.pool.cached

    @property
    def awaited_contexts(self) -> list[AwaitedContext]:
        """The contexts whose next turns are expected, with their blocks that no sequence has."""
        idle = self.pool.cached_blocks()
        return [
            AwaitedContext(each.app, each.context_id, [idle[key] for key in each.hashes if key in idle])
            for each in self.pool.eviction.returns
        ]

    @property
    def swapped_blocks(self) -> frozenset[int]:
        """The blocks that chunks are being loaded into, or stored from."""
        return frozenset((*self.loads.held_blocks, *self.swap_outs.held_blocks))

    @property
    def keeps_states(self) -> bool:
        """Whether the model is hybrid: sequences have states that cannot be cut back to an earlier token."""
        return self.states is not None

    @property
    def usable_tokens(self) -> int:
        """Tokens that fit if one sequence had every block that is not quarantined."""
        if self.states is not None and not self.states.suffices:
            return 0
        return self.pool.usable * self.block_tokens

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold ``tokens`` tokens."""
        return -(-tokens // self.block_tokens)

    def capacity(self, sequence: Sequence) -> int:
        """Tokens that the blocks of a sequence hold."""
        return len(sequence.blocks) * self.block_tokens

    def attach_cached_prefix(self, sequence: Sequence) -> None:
        """Give a sequence without blocks those of its longest prefix that its app has in the prefix cache.

        Their tokens then count as computed. At least the last token is left to compute: its logits are
        needed.
        """
        checkpoint = None
        if sequence.block_hashes is not None and self.share:
            tokens = len(sequence.tokens) if self.share_sampled else sequence.prompt_tokens
            hashes = sequence.block_hashes.compute(sequence.tokens, (tokens - 1) // self.block_tokens)
            sequence.blocks, checkpoint = self._acquire_cached(hashes)
            usable = self._usable_blocks(sequence, len(sequence.blocks))
            self.pool.release(sequence.blocks[usable:])
            sequence.blocks = sequence.blocks[:usable]
            sequence.computed_tokens = len(sequence.blocks) * self.block_tokens
        if self.states is not None:
            sequence.states = self.states.begin(checkpoint)

    def begin_loads(self, sequence: Sequence, now: float) -> None:
        """Load what is stored of an admitted sequence's prompt, behind its cached prefix."""
        if hashes := self._loadable(sequence):
            self.loads.begin(sequence, hashes, now)

    def skip_cached(self, sequence: Sequence) -> None:
        """Take the next blocks of a running prompt that are in the arena by now, where chunks are loaded.

        Their tokens then count as computed.
        """
        before = sequence.computed_tokens
        if before % self.block_tokens:
            return
        hashes = self._loadable(sequence)
        for position in range(before // self.block_tokens, len(hashes)):
            found = self.pool.acquire_cached(hashes[position : position + 1])
            if not found:
                break
            self.pool.release(sequence.blocks[position : position + 1])
            sequence.blocks[position : position + 1] = found
            sequence.computed_tokens += self.block_tokens
        if not sequence.evicted and sequence.cached_tokens is not None:
            sequence.cached_tokens += sequence.computed_tokens - before

    def tokens_to_compute(self, sequence: Sequence, length: int, now: float) -> int:
        """Return how many of the next ``length`` tokens of a prompt to compute now.

        They end before the next block that is in the arena or being loaded; 0 if the next one is. Call
        :meth:`skip_cached` before.
        """
        hashes = self._loadable(sequence)
        if not hashes or sequence.computed_tokens % self.block_tokens:
            return length
        return self.loads.tokens_to_compute(sequence, length, hashes, now)

    def swap_out(self, sequence: Sequence) -> None:
        """Have the complete blocks of a sequence that ends stored, and stop its loads."""
        self.loads.abandon(sequence)
        if not self._stores(sequence) or sequence.block_hashes is None:
            return
        complete = self._shared_tokens(sequence) // self.block_tokens
        if complete:
            self.swap_outs.begin(sequence, sequence.block_hashes.compute(sequence.tokens, complete))

    def room_for(
        self, blocks: int, level: float, *, admitting: bool, without: Collection[Sequence] = ()
    ) -> bool:
        """Whether ``blocks`` blocks would be free if the sequences in ``without`` had none.

        Not if that takes blocks of contexts of a more urgent priority level than ``level`` that are expected
        back. ``admitting`` a sequence takes state rows as well, in a hybrid model.
        """
        tables = Counter(block for sequence in without for block in sequence.blocks)
        if without:
            tables.update(self.loads.released_by(without))
        free = self.pool.free - self.pool.eviction.kept_from(level)
        if free + self.pool.freed_by(tables) < blocks:
            return False
        if self.states is None or not admitting:
            return True
        rows = self.states.free - self.states.eviction.kept_from(level)
        return rows + len(without) * ROWS_PER_SEQUENCE >= ROWS_PER_SEQUENCE

    def allocate(self, sequence: Sequence, blocks: int) -> None:
        """Append ``blocks`` free blocks to the sequence's table; give it state rows if it has none yet."""
        sequence.blocks += self.pool.allocate(blocks)
        if self.states is not None and sequence.states is not None and not sequence.states.own:
            self.states.reserve(sequence.states)

    def branch(
        self, chunk: ScheduledChunk, before: Iterable[Branch], tokens: tuple[int, ...]
    ) -> Branch | None:
        """Return a branch of ``chunk`` beside those ``before``; None if no blocks are free for it.

        Its blocks lie behind those of the draft at the end of the sequence's table.
        """
        sequence = chunk.sequence
        start = sequence.computed_tokens
        place = start // self.block_tokens
        begin = self.blocks_for(start + 1 + len(chunk.draft)) + sum(len(branch.blocks) for branch in before)
        end = begin + self.blocks_for(start + 1 + len(tokens)) - place
        needed = end - len(sequence.blocks)
        if needed > self.free_blocks:
            return None
        if needed > 0:
            self.allocate(sequence, needed)
        return Branch(tokens, place, tuple(sequence.blocks[begin:end]), start % self.block_tokens > 0)

    def take_branch(self, sequence: Sequence, branches: abc.Sequence[Branch], taken: Branch) -> None:
        """Put the blocks of one of ``branches`` in place of the sequence's own, which are released.

        Those of ``branches`` have not been taken. A block of its own may be in the prefix cache already, and
        must not become one of a later branch.
        """
        table = sequence.blocks
        own = table[taken.place : min(table.index(branch.blocks[0]) for branch in branches)]
        others = [block for block in table[taken.place + len(own) :] if block not in taken.blocks]
        sequence.blocks = [*table[: taken.place], *taken.blocks, *others]
        self.pool.release(own)

    def release_spare(self, sequence: Sequence) -> None:
        """Release what a sequence has behind the blocks of its tokens: those of verified branches."""
        used = self.blocks_for(len(sequence.tokens))
        self.pool.release(sequence.blocks[used:])
        sequence.blocks = sequence.blocks[:used]

    def start(self, sequence: Sequence, length: int) -> None:
        """Note that a batch is to compute ``length`` more tokens of the sequence."""
        if self.states is None or sequence.states is None:
            return
        end = sequence.computed_tokens + length
        shared = 0
        if sequence.block_hashes is not None and self.share:
            shared = end if self.share_sampled else min(end, sequence.prompt_tokens)
        prompt_ends = sequence.needs_prefill and end == sequence.prefill_end
        self.states.start(
            sequence.states, sequence.computed_tokens, length, prompt_ends=prompt_ends, shared=shared
        )

    def complete(self, sequence: Sequence) -> None:
        """Take over the state that a batch has written, whose tokens now count as computed."""
        if self.states is None or sequence.states is None:
            return
        hashes: list[bytes] = []
        if sequence.block_hashes is not None and sequence.states.positions:
            blocks = [position // self.block_tokens for position in sequence.states.positions]
            known = sequence.block_hashes.compute(sequence.tokens, blocks[-1])
            hashes = [known[block - 1] for block in blocks]
        self.states.complete(sequence.states, hashes, sequence.app)

    def abandon(self, sequence: Sequence) -> None:
        """Note that the sequence's batch was dropped."""
        if self.states is not None and sequence.states is not None:
            self.states.abandon(sequence.states)

    def cache_full_blocks(self, sequence: Sequence, before: int) -> None:
        """Cache the blocks that were completed since ``before`` tokens were computed."""
        first = before // self.block_tokens
        if first == sequence.computed_tokens // self.block_tokens:
            return
        last = self._shared_tokens(sequence) // self.block_tokens
        if first >= last or sequence.block_hashes is None or not self.share:
            return
        hashes = sequence.block_hashes.compute(sequence.tokens, last)
        for index in range(first, last):
            self.pool.cache(sequence.blocks[index], hashes[index], sequence.app)

    def release(self, sequence: Sequence) -> None:
        """Release all blocks and state rows of a sequence; cached ones can still be found."""
        self.loads.abandon(sequence)
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed_tokens = 0
        if self.states is not None and sequence.states is not None:
            self.states.release(sequence.states)
            sequence.states = None

    def roll_back(self, sequence: Sequence, length: int, *, quarantine: bool) -> None:
        """Discard the blocks that a failed kernel was writing ``length`` tokens to; earlier ones are sound.

        ``quarantine`` them if the kernel may still be writing. Computation resumes at the first token of the
        first discarded block, and writes tokens together or one by one as they were written before. In a
        hybrid model the state behind that token may be lost: the sequence then has no blocks left.
        """
        self.loads.abandon(sequence)
        written = sequence.computed_tokens // self.block_tokens
        first = self._usable_blocks(sequence, written)
        touched = self.blocks_for(sequence.computed_tokens + length)
        if quarantine:
            self.pool.quarantine(sequence.blocks[written:touched])
            self.pool.release([*sequence.blocks[first:written], *sequence.blocks[touched:]])
            if self.states is not None and sequence.states is not None:
                self.states.quarantine(sequence.states)
        else:
            self.pool.release(sequence.blocks[first:])
        sequence.blocks = sequence.blocks[:first]
        if self.states is not None:
            self.release(sequence)
        sequence.computed_tokens = len(sequence.blocks) * self.block_tokens

    def rewind_to_block(self, sequence: Sequence) -> bool:
        """Recompute the block that is partly computed from its first token; return whether there is one.

        The sequence keeps its blocks. Keys that are not quantised are written again in place. With others a
        hybrid model, where the state behind that token is lost, loses all its blocks.
        """
        if not self.quantised_keys:
            return False
        partial = sequence.computed_tokens % self.block_tokens
        if self.states is None:
            sequence.computed_tokens -= partial
        elif partial:
            self.release(sequence)
        return partial > 0

    def expect_return(
        self, sequence: Sequence, calls: Collection[str], now: float, longest_hold_s: float
    ) -> None:
        """Expect the next turn of a sequence whose answer ended at ``now`` with ``calls`` of these tools.

        Less urgent sequences do not take its blocks, for at most ``longest_hold_s``.
        """
        if sequence.block_hashes is None or not self.share:
            return
        hashes = sequence.block_hashes.compute(sequence.tokens, len(sequence.tokens) // self.block_tokens)
        blocks, checkpoint = self._acquire_cached(hashes)
        self.pool.release(blocks)
        if self.states is not None and checkpoint is not None:
            self.states.release_checkpoint(checkpoint)
        prompt_blocks = min(len(blocks), sequence.prompt_tokens // self.block_tokens)
        if not prompt_blocks:
            return
        key = hashes[prompt_blocks - 1]
        tokens = len(sequence.tokens)
        seconds = self.pauses.begin(key, tokens, sequence.app, calls, sequence.tool_seconds, now)
        if seconds is None:
            return
        until = now + seconds + max(_LEAST_DELAY_S, _DELAY * seconds)
        self._expect(
            ExpectedReturn(
                key=key,
                hashes=hashes[: len(blocks)],
                app=sequence.app,
                context_id=sequence.context_id,
                at=now + seconds,
                late=now + seconds + max(_PUNCTUAL_S, _PUNCTUAL * seconds),
                until=until,
                level=sequence.level if until - now <= longest_hold_s else float("inf"),
            )
        )

    def note_arrival(self, sequence: Sequence, longest_hold_s: float) -> None:
        """Note that ``sequence`` has arrived, which may be a next turn: it will need its blocks soon."""
        if sequence.block_hashes is None:
            return
        tokens = sequence.prompt_tokens
        hashes = sequence.block_hashes.compute(sequence.tokens, tokens // self.block_tokens)
        sequence.continues = self.pauses.arrive(hashes, tokens, sequence.arrived)
        if (known := self.pool.eviction.find(sequence.continues)) is not None:
            until = sequence.arrived + longest_hold_s
            self._expect(replace(known, at=sequence.arrived, late=until, until=until, level=sequence.level))

    def end_return(self, sequence: Sequence) -> None:
        """Note that ``sequence``, which may be an expected next turn, has its blocks."""
        if sequence.continues is not None:
            for policy in self._policies:
                policy.end(sequence.continues)

    def expire(self, now: float) -> None:
        """Expect those returns no longer that have not come in time."""
        for policy in self._policies:
            self.pauses.expire(policy.expire(now))

    def next_expiry(self) -> float:
        """When the next return is no longer expected; infinite if none is."""
        return self.pool.eviction.next_expiry()

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """Check that ``sequences``, loads and swap-outs account for every block and row."""
        sequences = list(sequences)
        tables = [sequence.blocks for sequence in sequences]
        tables += [self.loads.held_blocks, self.swap_outs.held_blocks]
        self.pool.check_integrity(tables)
        if self.states is not None:
            self.states.check_integrity(
                sequence.states for sequence in sequences if sequence.states is not None
            )

    @property
    def _policies(self) -> list[EvictionPolicy]:
        return [self.pool.eviction, *([] if self.states is None else [self.states.eviction])]

    def _expect(self, expected: ExpectedReturn) -> None:
        for policy in self._policies:
            policy.expect(expected)

    def _stores(self, sequence: Sequence) -> bool:
        return self.stores_chunks and self.share and bool(sequence.app)

    def _shared_tokens(self, sequence: Sequence) -> int:
        """The computed tokens whose blocks may be shared."""
        computed = sequence.computed_tokens
        return computed if self.share_sampled else min(computed, sequence.prompt_tokens)

    def _loadable(self, sequence: Sequence) -> list[bytes]:
        """The hashes of the prompt's blocks that need not be computed: not that of its last token."""
        if not self._stores(sequence) or sequence.block_hashes is None:
            return []
        blocks = min(sequence.prompt_tokens, len(sequence.tokens) - 1) // self.block_tokens
        return sequence.block_hashes.compute(sequence.tokens, self._usable_blocks(sequence, blocks))

    def _usable_blocks(self, sequence: Sequence, blocks: int) -> int:
        """The first ``blocks`` blocks of a sequence, or one less if that would leave one token of its prompt.

        Devices compute one token by other kernels than several, which shows where keys are not quantised. A
        hybrid model loses its checkpoint with a block.
        """
        leaves_one = sequence.prompt_tokens - blocks * self.block_tokens == 1
        may = not self.quantised_keys and not self.keeps_states
        return blocks - 1 if leaves_one and may and blocks else blocks

    def _acquire_cached(self, hashes: list[bytes]) -> tuple[list[int], int | None]:
        """Take the cached blocks of the longest prefix that can be reused, and the checkpoint behind it."""
        blocks = self.pool.acquire_cached(hashes)
        if self.states is None:
            return blocks, None
        while blocks:
            checkpoint = self.states.acquire_checkpoint(hashes[len(blocks) - 1])
            if checkpoint is not None:
                return blocks, checkpoint
            self.pool.release([blocks.pop()])
        return [], None
