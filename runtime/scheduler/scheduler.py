"""What runs next: continuous batching with chunked prefill, reactive first (Agent.xpu §6.1).

Pure state: no clock, no threads, no I/O.

One *step* is one forward pass. It holds at most one token of each decoding sequence plus prompt chunks of
together at most ``prefill_chunk_tokens``. Sequences take their place in one order, reactive before proactive
and then by arrival, and everything follows from it:

- A step is filled in that order. Sequences beyond ``max_batch_size`` keep their blocks and wait.
- Proactive *prompts* wait while a reactive sequence is in the step: they would lengthen it. Proactive decodes
  ride along; they cost a reactive one next to nothing.
- A sequence that needs blocks takes them from the last ones in the order (*preemption*): those go back to
  waiting and are computed again later. The first in the order can take from everyone and a single sequence
  always fits the arena, so there is always one that advances, and none is lost.

Preemption cannot change what a model says. Quantised KV depends on which tokens were written together, so
prompt chunks end on block boundaries wherever they are cut, and a preempted sequence's sampled tokens are
computed again one by one, as they were the first time.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from operator import attrgetter
from typing import NamedTuple

from ..context import BlockPool
from .sequence import Sequence, SequenceState

_by_order = attrgetter("order")


class Slice(NamedTuple):
    """The part of one sequence that a step computes: ``tokens[computed : computed + length]``."""

    sequence: Sequence
    length: int
    samples: bool
    """Whether the slice ends with the last known token, so that its logits give the next one."""


class Scheduler:
    """Owns the waiting and the running sequences, and the pool of blocks. Not thread-safe."""

    def __init__(
        self, pool: BlockPool, *, block_tokens: int, max_batch_size: int, prefill_chunk_tokens: int
    ) -> None:
        """``prefill_chunk_tokens`` is rounded up to whole blocks."""
        self._pool = pool
        self._block_tokens = block_tokens
        self._max_batch_size = max_batch_size
        self.prefill_chunk_tokens = self._blocks_for(prefill_chunk_tokens) * block_tokens
        self._waiting: list[Sequence] = []  # both sorted by order
        self._running: list[Sequence] = []
        self.preemptions = 0

    @property
    def waiting(self) -> int:
        """Sequences that hold no blocks."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences that hold blocks."""
        return len(self._running)

    def add(self, sequence: Sequence) -> None:
        """Let a WAITING sequence in. It must fit the arena if it had it for itself, answer included."""
        insort(self._waiting, sequence, key=_by_order)

    def finish(self, sequence: Sequence) -> None:
        """End a sequence in any state, for whatever reason; its blocks are free at once."""
        if sequence.state is SequenceState.WAITING:
            self._drop(self._waiting, sequence)
        elif sequence.state is not SequenceState.FINISHED:
            self._drop(self._running, sequence)
            self._pool.release(sequence.blocks)
            sequence.blocks = []
        sequence.state = SequenceState.FINISHED

    def plan(self) -> list[Slice]:
        """Choose the next step and give its sequences their blocks. Empty only if nothing is alive."""
        step: list[Slice] = []
        admitted: list[Sequence] = []
        preempted: list[Sequence] = []
        budget = self.prefill_chunk_tokens
        # No step lets more sequences in than it has places, so that a long queue costs nothing here.
        waiting = self._waiting[: self._max_batch_size]
        for sequence in heapq.merge(tuple(self._running), waiting, key=_by_order):
            if len(step) == self._max_batch_size or sequence in preempted:
                break
            prefills = sequence.computed < sequence.prompt_tokens
            if prefills and step and step[0].sequence.priority < sequence.priority:
                continue
            count = self._chunk(sequence, budget) if prefills else 1
            if count == 0:
                continue
            if not self._hold_blocks(sequence, count, ahead=len(step), preempted=preempted):
                break  # nobody behind this one holds a block, so nobody behind it can run
            if sequence.state is SequenceState.WAITING:
                sequence.state = SequenceState.PREFILL
                admitted.append(sequence)
            if prefills:
                budget -= count
            step.append(Slice(sequence, count, sequence.computed + count == len(sequence.tokens)))
        for sequence in admitted:
            self._drop(self._waiting, sequence)
            insort(self._running, sequence, key=_by_order)
        for sequence in preempted:
            self._drop(self._running, sequence)
            insort(self._waiting, sequence, key=_by_order)
        return step

    def commit(self, step: list[Slice]) -> None:
        """Record that the forward pass of ``step`` is done; call before sampling from it."""
        for sequence, count, samples in step:
            sequence.computed += count
            if samples:
                sequence.state = SequenceState.DECODE

    def check_integrity(self) -> None:
        """Check that no block is lost and no sequence is where its state says it cannot be.

        Raises:
            AssertionError: always a bug.
        """
        self._pool.check_integrity(sequence.blocks for sequence in self._running)
        for sequence in self._waiting:
            if sequence.state is not SequenceState.WAITING or sequence.blocks or sequence.computed:
                raise AssertionError(f"sequence {sequence.id} waits, but is {sequence.state} with blocks")
        for sequence in self._running:
            if sequence.state not in (SequenceState.PREFILL, SequenceState.DECODE):
                raise AssertionError(f"sequence {sequence.id} runs, but is {sequence.state}")
            if self._blocks_for(sequence.computed) > len(sequence.blocks):
                raise AssertionError(f"sequence {sequence.id} has computed more than its blocks hold")

    def _chunk(self, sequence: Sequence, budget: int) -> int:
        """How much of the rest of the prompt to compute now: all of it, or whole blocks within the budget."""
        rest = sequence.prompt_tokens - sequence.computed
        return rest if rest <= budget else budget // self._block_tokens * self._block_tokens

    def _hold_blocks(self, sequence: Sequence, count: int, *, ahead: int, preempted: list[Sequence]) -> bool:
        """Give ``sequence`` blocks for ``count`` more tokens, or False and nothing changed."""
        admission = sequence.state is SequenceState.WAITING
        # Whoever is let in gets blocks for all it has, and leaves every sequence ahead of it one to grow
        # into: otherwise it would be preempted again at once.
        tokens = len(sequence.tokens) if admission else sequence.computed + count
        needed = self._blocks_for(tokens) - len(sequence.blocks)
        if needed <= 0:
            return True
        wanted = needed + ahead if admission else needed
        victims: list[Sequence] = []
        available = self._pool.free
        for candidate in reversed(self._running):
            if available >= wanted or candidate.order <= sequence.order:
                break
            if candidate not in preempted:
                victims.append(candidate)
                available += len(candidate.blocks)
        if available < wanted:
            return False
        for victim in victims:
            self._preempt(victim)
        preempted += victims
        sequence.blocks += self._pool.allocate(needed)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = 0
        sequence.state = SequenceState.WAITING
        self.preemptions += 1

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._block_tokens)

    @staticmethod
    def _drop(sequences: list[Sequence], sequence: Sequence) -> None:
        del sequences[bisect_left(sequences, sequence.order, key=_by_order)]
