"""Who holds which KV blocks, whose prefix is still in memory, and which contexts wait for a tool.

Blocks are shared only where they hold what computing them again would write, up to the last bits of a sum.
Quantised keys depend on which tokens were written together, so there a block that took its tokens one by one
(an answer's) is not what a prompt's would be, and only blocks that were filled by a prompt are shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..context.blocks import BlockPool
from .sequence import Sequence


@dataclass(frozen=True, slots=True)
class _Kept:
    """The blocks of a turn whose tools are running, held for its next turn."""

    blocks: list[int]
    rank: int
    until: float


class BlockManager:
    """Block tables over one pool. It never decides who has to go: the scheduler does."""

    def __init__(self, pool: BlockPool, block_tokens: int, *, share: bool, share_sampled: bool) -> None:
        """``share_sampled``: whether blocks with sampled tokens may be shared (keys are not quantised)."""
        self._pool = pool
        self._block_tokens = block_tokens
        self._share = share
        self._share_sampled = share_sampled
        self._kept: dict[bytes, _Kept] = {}

    @property
    def free(self) -> int:
        """Blocks that can be had without taking them from a sequence or a kept context."""
        return self._pool.free

    @property
    def usable_tokens(self) -> int:
        """Tokens that fit if one sequence had everything that is not quarantined."""
        return self._pool.usable * self._block_tokens

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self._block_tokens)

    def attach_prefix(self, sequence: Sequence) -> None:
        """Let a sequence that holds nothing begin behind the longest prefix its app has in memory.

        At least its last token is left to compute: its logits are wanted.
        """
        if sequence.keys is None or not self._share:
            return
        tokens = sequence.tokens if self._share_sampled else sequence.tokens[: sequence.prompt_tokens]
        reusable = (len(tokens) - 1) // self._block_tokens
        keys = sequence.keys.of(tokens, reusable)
        sequence.blocks = self._pool.share(keys)
        sequence.computed = len(sequence.blocks) * self._block_tokens

    def grow(self, sequence: Sequence, blocks: int) -> None:
        """Append ``blocks`` more to the sequence's table."""
        sequence.blocks += self._pool.allocate(blocks)

    def publish(self, sequence: Sequence, before: int) -> None:
        """Let the blocks be found that were completed since ``before`` tokens were computed."""
        shared = sequence.computed if self._share_sampled else min(sequence.computed, sequence.prompt_tokens)
        first, last = before // self._block_tokens, shared // self._block_tokens
        if first >= last or sequence.keys is None or not self._share:
            return
        for index, key in enumerate(sequence.keys.of(sequence.tokens, last)[first:], first):
            self._pool.publish(sequence.blocks[index], key)

    def release(self, sequence: Sequence) -> None:
        """Take all blocks from a sequence; what was published can still be found."""
        self._pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = 0

    def roll_back(self, sequence: Sequence, length: int, *, quarantine: bool) -> None:
        """Forget the blocks that a failed kernel was writing ``length`` tokens to; all before them is sound.

        ``quarantine`` them if the kernel may still be writing. Computing goes on at the first of them, and
        writes it token for token as it was written before.
        """
        first = sequence.computed // self._block_tokens
        touched = self.blocks_for(sequence.computed + length)
        if quarantine:
            self._pool.quarantine(sequence.blocks[first:touched])
            self._pool.release(sequence.blocks[touched:])
        else:
            self._pool.release(sequence.blocks[first:])
        sequence.blocks = sequence.blocks[:first]
        sequence.computed = first * self._block_tokens

    def freed_by(self, tables: Iterable[list[int]]) -> int:
        """How many more blocks would be free if the holders of ``tables`` let go of them."""
        return self._pool.freed_by(Counter(block for table in tables for block in table))

    def keep(self, sequence: Sequence, until: float) -> None:
        """Hold what is left in memory of a finished sequence, so that its next turn finds it."""
        if sequence.keys is None or not self._share:
            return
        keys = sequence.keys.of(sequence.tokens, len(sequence.tokens) // self._block_tokens)
        blocks = self._pool.share(keys)
        if blocks:
            last = keys[len(blocks) - 1]
            self._let_go(last)
            self._kept[last] = _Kept(blocks, sequence.rank, until)

    def drop_kept(self, sequence: Sequence) -> None:
        """Hold no longer what ``sequence``, the next turn, holds itself by now."""
        if self._kept and sequence.keys is not None:
            for key in sequence.keys.of(sequence.tokens, len(sequence.blocks)):
                self._let_go(key)

    def drop_expired(self, now: float) -> None:
        """Hold no longer what has waited its time."""
        if self._kept:
            for key in [key for key, kept in self._kept.items() if kept.until <= now]:
                self._let_go(key)

    def make_room(self, blocks: int, rank: int) -> bool:
        """Let go of kept contexts, oldest first, for a sequence of ``rank``; whether that is enough.

        A reactive turn's context is not given up for proactive work.
        """
        for key in [key for key, kept in self._kept.items() if kept.rank >= rank]:
            if self.free >= blocks:
                break
            self._let_go(key)
        return self.free >= blocks

    def next_expiry(self) -> float:
        """When a kept context will be let go of; infinite if there is none."""
        return min((kept.until for kept in self._kept.values()), default=float("inf"))

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """Check that every block is accounted for by ``sequences`` and the kept contexts.

        Raises:
            AssertionError: always a bug.
        """
        tables = [sequence.blocks for sequence in sequences]
        self._pool.check_integrity([*tables, *(kept.blocks for kept in self._kept.values())])

    def _let_go(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._pool.release(kept.blocks)
