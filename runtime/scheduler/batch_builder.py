"""Builds batches: which sequences, how many tokens of each, and which blocks they get (chunked prefill).

Continuous batching happens here: every batch is built from the sequences that are ready at that moment. Where
blocks are short, sequences at the end of the order are evicted for those before them.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable

from ..heg.graph import ExecutionGraph
from .batch import Batch, ScheduledChunk, Stage
from .batches_in_progress import BatchesInProgress
from .block_manager import BlockManager
from .policy import Policy
from .queues import RequestQueues, by_order
from .sequence import Sequence, SequenceState


class BatchBuilder:
    """Starts batches, admits waiting sequences to them, and evicts sequences where blocks are short."""

    def __init__(
        self,
        graph: ExecutionGraph,
        policy: Policy,
        queues: RequestQueues,
        block_manager: BlockManager,
        batches: BatchesInProgress,
        max_batch_size: int,
    ) -> None:
        """``max_batch_size`` is in sequences; new batches are entered in ``batches``."""
        self._graph = graph
        self._policy = policy
        self._queues = queues
        self._block_manager = block_manager
        self._batches = batches
        self._max_batch_size = max_batch_size
        self._backfill_batch = graph.max_decode_batch(policy.backfill_slowdown, limit=max_batch_size)
        self.evictions = 0
        """Times a running sequence lost its blocks to a more urgent one."""

    def start_batch(self, stage: Stage, level: int) -> Batch | None:
        """Start a batch with every sequence that fits in it; None if there is none of ``level``."""
        chunks = self._schedule_chunks(stage, level)
        return self._batches.start(chunks, stage) if chunks else None

    def evict_background_prompts(self) -> None:
        """Evict every background sequence in prefill, except those whose kernel is running."""
        for sequence in [
            s for s in self._queues.running if s.is_background and s.needs_prefill and self._evictable(s)
        ]:
            self._evict(sequence)

    def _schedule_chunks(self, stage: Stage, level: int) -> list[ScheduledChunk]:
        """Schedule a chunk of each candidate, as far as places, tokens and free blocks go."""
        chunks: list[ScheduledChunk] = []
        evicted: set[Sequence] = set()
        budget: int | None = None
        full = False
        for sequence in self._candidates(stage, level):
            if len(chunks) == self._max_batch_size:
                break
            waiting = sequence.state is SequenceState.WAITING
            if sequence in evicted or (waiting and full):
                continue
            if waiting:
                self._block_manager.attach_cached_prefix(sequence)
            prefill = sequence.needs_prefill
            if prefill and budget is None:
                budget = max(self._token_budget(sequence) - len(chunks), self._graph.block_tokens)
            length = self._chunk_length(sequence, budget) if prefill and budget is not None else 1
            if length and self._reserve_blocks(sequence, length, chunks, evicted):
                if waiting:
                    self._admit(sequence)
                budget = None if budget is None else budget - length
                samples = sequence.computed_tokens + length == len(sequence.tokens)
                draft = self._draft_that_fits(sequence) if sequence.draft and samples and not prefill else ()
                chunks.append(ScheduledChunk(sequence, length, samples, draft))
            elif waiting:
                self._block_manager.release(sequence)
                full = full or length > 0  # a sequence behind it must not take the blocks it waits for
        return chunks

    def _candidates(self, stage: Stage, level: int) -> Iterable[Sequence]:
        """The sequences that can be in a new batch, the most urgent first."""
        free = self._batches.not_in_batch(self._queues.running)
        if stage is Stage.DECODE:
            decoding = [sequence for sequence in free if not sequence.needs_prefill]
            own = [sequence for sequence in decoding if sequence.level == level][: self._max_batch_size]
            if not own or not self._policy.backfill:
                return own
            others = [sequence for sequence in decoding if sequence.level != level]
            return own + others[: max(0, self._backfill_batch - len(own))]
        # No batch admits more sequences than it has places, so that a long queue costs nothing here.
        queue = self._queues.by_level[level].first(self._max_batch_size)
        if self._policy.mixed_batches:
            return heapq.merge(free, queue, key=by_order)
        own = [sequence for sequence in free if sequence.level == level]
        resumed = [sequence for sequence in own if sequence.needs_prefill]
        prompts = sorted(resumed + queue, key=self._queues.key) if resumed else queue
        if stage is Stage.PREFILL:
            return prompts
        return [*(sequence for sequence in own if not sequence.needs_prefill), *prompts]

    def _token_budget(self, first: Sequence) -> int:
        """Tokens in a batch whose first prompt is ``first``: as many as its kernels may take time for."""
        policy, most = self._policy, self._graph.max_chunk_tokens
        if policy.chunk_tokens is not None:
            return policy.chunk_tokens
        within_quantum = self._graph.chunk_tokens(first.computed_tokens, most)
        if first.is_background or not policy.by_priority:
            return within_quantum
        most = min(most, policy.reactive_chunk_tokens)
        return max(
            within_quantum, self._graph.chunk_tokens(first.computed_tokens, most, policy.reactive_kernel_s)
        )

    def _chunk_length(self, sequence: Sequence, budget: int) -> int:
        """Length of the next chunk of a prompt: all that is left, or whole blocks within the budget."""
        left = sequence.prefill_end - sequence.computed_tokens
        if left <= budget:
            return left
        # Tokens that were given behind sampled ones may begin inside a block.
        end = (sequence.computed_tokens + budget) // self._graph.block_tokens * self._graph.block_tokens
        return max(0, end - sequence.computed_tokens)

    def _draft_that_fits(self, sequence: Sequence) -> tuple[int, ...]:
        """The sequence's draft if free blocks hold it, else nothing: no sequence is evicted for a draft."""
        tokens = len(sequence.tokens) + len(sequence.draft)
        needed = self._block_manager.blocks_for(tokens) - len(sequence.blocks)
        if needed > self._block_manager.free_blocks:
            return ()
        if needed > 0:
            self._block_manager.allocate(sequence, needed)
        return sequence.draft

    def _admit(self, sequence: Sequence) -> None:
        """Admit a waiting sequence whose blocks are reserved."""
        self._block_manager.release_continued(sequence)
        self._queues.admit(sequence)
        if sequence.cached_tokens is None:
            sequence.cached_tokens = sequence.computed_tokens

    def _reserve_blocks(
        self, sequence: Sequence, length: int, chunks: list[ScheduledChunk], evicted: set[Sequence]
    ) -> bool:
        """Allocate blocks for ``length`` more tokens of ``sequence``; return whether there are enough.

        ``evicted`` receives the sequences whose blocks were taken for it.
        """
        waiting = sequence.state is SequenceState.WAITING
        # An admitted sequence gets blocks for all its tokens, and leaves every sequence ahead of it one to
        # grow into: otherwise it would be evicted again at once.
        tokens = len(sequence.tokens) if waiting else sequence.computed_tokens + length
        needed = self._block_manager.blocks_for(tokens) - len(sequence.blocks)
        if needed <= 0:
            return True
        ahead = bisect_left(self._queues.running, sequence.order, key=by_order) if waiting else 0
        if not self._free_up(needed + ahead, sequence, chunks, evicted):
            return False
        self._block_manager.allocate(sequence, needed)
        return True

    def _free_up(
        self, blocks: int, sequence: Sequence, chunks: list[ScheduledChunk], evicted: set[Sequence]
    ) -> bool:
        """Have ``blocks`` free for ``sequence``: take held contexts, then evict; return whether they are."""
        if self._block_manager.free_blocks >= blocks:
            return True
        if self._block_manager.reclaim_held(blocks, sequence.level):
            return True
        victims = self._victims(blocks, sequence, {chunk.sequence for chunk in chunks})
        for victim in victims:
            self._evict(victim)
        evicted.update(victims)
        return bool(victims)

    def _victims(self, blocks: int, sequence: Sequence, scheduled: set[Sequence]) -> list[Sequence]:
        """The last sequences behind ``sequence`` in the order whose blocks suffice; none if all do not."""
        victims: list[Sequence] = []
        for candidate in reversed(self._queues.running):
            if candidate.order <= sequence.order:
                break
            if candidate in scheduled or not self._evictable(candidate):
                continue
            victims.append(candidate)
            freed = self._block_manager.freed_by(victim.blocks for victim in victims)
            if self._block_manager.free_blocks + freed >= blocks:
                return victims
        return []

    def _evict(self, sequence: Sequence) -> None:
        """Take a running sequence's blocks and requeue it; it recomputes what the prefix cache loses."""
        if (batch := self._batches.containing(sequence)) is not None:
            self._batches.drop(batch)
        self._block_manager.release(sequence)
        self._queues.requeue(sequence)
        self.evictions += 1

    def _evictable(self, sequence: Sequence) -> bool:
        """Whether its blocks can be taken: a prefill batch may start again, a decode batch ends soon."""
        batch = self._batches.containing(sequence)
        return batch is None or (batch.running_on is None and batch.stage is not Stage.DECODE)
