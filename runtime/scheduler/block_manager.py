"""The block manager: block tables of sequences, prefix cache, and contexts held for a tool turn.

Blocks are shared only where they hold what computing them again would write, up to the last bits of a sum.
Quantised keys depend on which tokens were written together, so there a block whose tokens were written one by
one (an answer's) differs from a prompt's, and only blocks that were filled by a prompt are shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..context.block_pool import BlockPool
from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class _HeldContext:
    """The blocks of a finished turn whose tools are running, held for its next turn."""

    blocks: list[int]
    level: int
    until: float


class BlockManager:
    """Block tables over one pool of KV blocks. Which sequence is evicted is the batch builder's decision."""

    def __init__(self, pool: BlockPool, block_tokens: int, *, share: bool, share_sampled: bool) -> None:
        """Create a manager of ``pool``, none of whose blocks are held.

        ``share`` enables the prefix cache; ``share_sampled`` says whether blocks with sampled tokens may be
        shared (keys are not quantised).
        """
        self._pool = pool
        self._block_tokens = block_tokens
        self._share = share
        self._share_sampled = share_sampled
        self._held: dict[bytes, _HeldContext] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks that can be allocated without taking them from a sequence or a held context."""
        return self._pool.free

    @property
    def usable_tokens(self) -> int:
        """Tokens that fit if one sequence had every block that is not quarantined."""
        return self._pool.usable * self._block_tokens

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold ``tokens`` tokens."""
        return -(-tokens // self._block_tokens)

    def attach_cached_prefix(self, sequence: Sequence) -> None:
        """Give a sequence without blocks those of its longest prefix that its app has in the prefix cache.

        Their tokens then count as computed. At least the last token is left to compute: its logits are
        needed.
        """
        if sequence.block_hashes is None or not self._share:
            return
        tokens = sequence.tokens if self._share_sampled else sequence.tokens[: sequence.prompt_tokens]
        reusable = (len(tokens) - 1) // self._block_tokens
        hashes = sequence.block_hashes.compute(tokens, reusable)
        sequence.blocks = self._pool.acquire_cached(hashes)
        sequence.computed_tokens = len(sequence.blocks) * self._block_tokens

    def allocate(self, sequence: Sequence, blocks: int) -> None:
        """Append ``blocks`` free blocks to the sequence's table."""
        sequence.blocks += self._pool.allocate(blocks)

    def cache_full_blocks(self, sequence: Sequence, before: int) -> None:
        """Cache the blocks that were completed since ``before`` tokens were computed."""
        computed = sequence.computed_tokens
        shared = computed if self._share_sampled else min(computed, sequence.prompt_tokens)
        first, last = before // self._block_tokens, shared // self._block_tokens
        if first >= last or sequence.block_hashes is None or not self._share:
            return
        hashes = sequence.block_hashes.compute(sequence.tokens, last)
        for index in range(first, last):
            self._pool.cache(sequence.blocks[index], hashes[index])

    def release(self, sequence: Sequence) -> None:
        """Release all blocks of a sequence; cached ones can still be found."""
        self._pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed_tokens = 0

    def roll_back(self, sequence: Sequence, length: int, *, quarantine: bool) -> None:
        """Discard the blocks that a failed kernel was writing ``length`` tokens to; earlier ones are sound.

        ``quarantine`` them if the kernel may still be writing. Computation resumes at the first token of the
        first discarded block, and writes tokens together or one by one as they were written before.
        """
        first = sequence.computed_tokens // self._block_tokens
        touched = self.blocks_for(sequence.computed_tokens + length)
        if quarantine:
            self._pool.quarantine(sequence.blocks[first:touched])
            self._pool.release(sequence.blocks[touched:])
        else:
            self._pool.release(sequence.blocks[first:])
        sequence.blocks = sequence.blocks[:first]
        sequence.computed_tokens = first * self._block_tokens

    def rewind_to_block(self, sequence: Sequence) -> bool:
        """Recompute the block that is partly computed from its first token; return whether there is one.

        The sequence keeps its blocks.
        """
        partial = sequence.computed_tokens % self._block_tokens
        sequence.computed_tokens -= partial
        return partial > 0

    def freed_by(self, tables: Iterable[list[int]]) -> int:
        """How many more blocks would be free if all ``tables`` were released; shared blocks may stay held."""
        return self._pool.freed_by(Counter(block for table in tables for block in table))

    def hold(self, sequence: Sequence, until: float) -> None:
        """Hold the cached blocks of a finished sequence until time ``until``, for its next turn."""
        if sequence.block_hashes is None or not self._share:
            return
        hashes = sequence.block_hashes.compute(sequence.tokens, len(sequence.tokens) // self._block_tokens)
        blocks = self._pool.acquire_cached(hashes)
        if blocks:
            last = hashes[len(blocks) - 1]
            self._release_held(last)
            self._held[last] = _HeldContext(blocks, sequence.level, until)

    def release_continued(self, sequence: Sequence) -> None:
        """Release the held contexts that ``sequence``, a next turn, begins with; it has their blocks."""
        if self._held and sequence.block_hashes is not None:
            # Not its whole table: the blocks behind its cached prefix are not complete yet.
            cached = sequence.computed_tokens // self._block_tokens
            for block_hash in sequence.block_hashes.compute(sequence.tokens, cached):
                self._release_held(block_hash)

    def release_expired(self, now: float) -> None:
        """Release held contexts whose time is over."""
        if self._held:
            for key in [key for key, context in self._held.items() if context.until <= now]:
                self._release_held(key)

    def reclaim_held(self, blocks: int, level: int) -> bool:
        """Release held contexts, oldest first, until ``blocks`` are free; return whether they are.

        Contexts of a more urgent priority level than ``level`` stay held.
        """
        for key in [key for key, context in self._held.items() if context.level >= level]:
            if self.free_blocks >= blocks:
                break
            self._release_held(key)
        return self.free_blocks >= blocks

    def next_expiry(self) -> float:
        """When the next held context is released; infinite if there is none."""
        return min((context.until for context in self._held.values()), default=float("inf"))

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """Check that ``sequences`` and the held contexts account for every block.

        Raises:
            AssertionError: always a bug.
        """
        tables = [sequence.blocks for sequence in sequences]
        self._pool.check_integrity([*tables, *(context.blocks for context in self._held.values())])

    def _release_held(self, key: bytes) -> None:
        context = self._held.pop(key, None)
        if context is not None:
            self._pool.release(context.blocks)
