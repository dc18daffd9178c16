"""Forms passes, gives their sequences blocks, and takes passes apart when they are through or dropped."""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections.abc import Iterable

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchContext
from .batch import Batch, ScheduledChunk, Stage, shape_of
from .block_manager import BlockManager
from .policy import Policy
from .queues import RequestQueues, by_order
from .sequence import Sequence, SequenceState


class BatchBuilder:
    """Every pass in progress. A sequence is in at most one of them."""

    def __init__(
        self,
        graph: ExecutionGraph,
        policy: Policy,
        queues: RequestQueues,
        block_manager: BlockManager,
        max_batch_size: int,
    ) -> None:
        """No pass is in progress."""
        self._graph = graph
        self._policy = policy
        self._queues = queues
        self._block_manager = block_manager
        self._max_batch_size = max_batch_size
        self._backfill_batch = graph.max_decode_batch(policy.backfill_slowdown, limit=max_batch_size)
        self._ids = itertools.count()
        self.batches: list[Batch] = []
        self._batch_of: dict[Sequence, Batch] = {}
        self.dropped: list[BatchContext] = []
        """Contexts of passes that nobody goes on with, until somebody takes them away."""
        self.evictions = 0

    def build(self, stage: Stage, rank: int) -> Batch | None:
        """Begin a pass with all who can be in it; None if nobody of ``rank`` can."""
        chunks: list[ScheduledChunk] = []
        lost: set[Sequence] = set()
        budget: int | None = None
        full = False
        for sequence in self._candidates(stage, rank):
            if len(chunks) == self._max_batch_size:
                break
            waits = sequence.state is SequenceState.WAITING
            if sequence in lost or (waits and full):
                continue
            if waits:
                self._block_manager.attach_prefix(sequence)
            prefills = sequence.prefills
            if prefills and budget is None:
                budget = max(self._chunk_tokens(sequence) - len(chunks), self._graph.block_tokens)
            count = self._chunk(sequence, budget) if prefills and budget is not None else 1
            held = count > 0 and self._hold(sequence, count, chunks, lost)
            if waits and held:
                self._block_manager.drop_kept(sequence)
                self._queues.admit(sequence)
                if sequence.cached_tokens is None:
                    sequence.cached_tokens = sequence.computed
            elif waits:
                self._block_manager.release(sequence)
            if held:
                budget = None if budget is None else budget - count
                samples = sequence.computed + count == len(sequence.tokens)
                draft = self._draft(sequence) if sequence.draft and samples and not prefills else ()
                chunks.append(ScheduledChunk(sequence, count, samples, draft))
            elif count and waits:
                full = True  # nobody shall take the memory that one before it waits for
        if not chunks:
            return None
        shape = shape_of(chunks)
        context = BatchContext(next(self._ids), None, shape, self._graph.kernels_for(shape))
        batch = Batch(chunks, stage, min(chunk.sequence.rank for chunk in chunks), context)
        self._batch_of.update(dict.fromkeys(batch.sequences, batch))
        self.batches.append(batch)
        return batch

    def batch_of(self, sequence: Sequence) -> Batch | None:
        """The batch in progress that ``sequence`` is in, if any."""
        return self._batch_of.get(sequence)

    def complete(self, batch: Batch) -> None:
        """Take ``run`` apart, every kernel of which is done: its tokens are in the arena."""
        self.batches.remove(batch)
        for chunk in batch.chunks:
            sequence = chunk.sequence
            del self._batch_of[sequence]
            if sequence.state is SequenceState.FINISHED:
                self._block_manager.release(sequence)
                continue
            self.advance(sequence, chunk.length)
            if chunk.samples:
                sequence.draft = ()
                sequence.state = SequenceState.DECODE
                sequence.faults = 0

    def advance(self, sequence: Sequence, tokens: int) -> None:
        """Note that so many more of its tokens are in the arena."""
        before = sequence.computed
        sequence.computed += tokens
        self._block_manager.publish(sequence, before)

    def drop(self, batch: Batch) -> None:
        """Do not go on with ``run``, of which no kernel is running; its sequences are as before it."""
        self.batches.remove(batch)
        self.dropped.append(batch.context)
        for sequence in batch.sequences:
            del self._batch_of[sequence]
            if sequence.state is SequenceState.FINISHED:
                self._block_manager.release(sequence)

    def fail(self, batch: Batch, *, hung: bool) -> list[Sequence]:
        """Drop ``run``, whose kernel failed; its sequences go on from the block that was being written.

        Returns:
            Those alive to whom it happened too often.
        """
        for chunk in batch.chunks:
            self._block_manager.roll_back(chunk.sequence, chunk.length + len(chunk.draft), quarantine=hung)
        self.drop(batch)
        alive = [s for s in batch.sequences if s.state is not SequenceState.FINISHED]
        for sequence in alive:
            sequence.faults += 1
            sequence.state = SequenceState.PREFILL
            if not sequence.blocks:
                self._queues.send_back(sequence)
        return [sequence for sequence in alive if sequence.faults >= self._policy.max_faults]

    def restart_prompts(self) -> None:
        """Take from background prompts what was computed of them, but for those whose kernel is running."""
        for sequence in [s for s in self._queues.running if s.rank and s.prefills and self._evictable(s)]:
            self._evict(sequence)

    def _candidates(self, stage: Stage, rank: int) -> Iterable[Sequence]:
        """Who can be in a new pass, the most urgent first."""
        free = [sequence for sequence in self._queues.running if sequence not in self._batch_of]
        if stage is Stage.DECODE:
            decoding = [sequence for sequence in free if not sequence.prefills]
            own = [sequence for sequence in decoding if sequence.rank == rank][: self._max_batch_size]
            if not own or not self._policy.backfill:
                return own
            others = [sequence for sequence in decoding if sequence.rank != rank]
            return own + others[: max(0, self._backfill_batch - len(own))]
        # No pass lets more in than it has places, so that a long queue costs nothing here.
        queue = self._queues.queues[rank].first(self._max_batch_size)
        if self._policy.mixed_batches:
            return heapq.merge(free, queue, key=by_order)
        own = [sequence for sequence in free if sequence.rank == rank]
        resumed = [sequence for sequence in own if sequence.prefills]
        prompts = sorted(resumed + queue, key=self._queues.turn) if resumed else queue
        if stage is Stage.PREFILL:
            return prompts
        return [*(sequence for sequence in own if not sequence.prefills), *prompts]

    def _chunk_tokens(self, first: Sequence) -> int:
        """Tokens in one pass with prompts: as many as keep its kernels as short as they have to be."""
        policy, most = self._policy, self._graph.max_chunk_tokens
        if policy.chunk_tokens is not None:
            return policy.chunk_tokens
        within = self._graph.chunk_tokens(first.computed, most)
        if first.rank or not policy.by_priority:
            return within
        most = min(most, policy.reactive_chunk_tokens)
        return max(within, self._graph.chunk_tokens(first.computed, most, policy.reactive_kernel_s))

    def _chunk(self, sequence: Sequence, budget: int) -> int:
        """How much of the rest of the prompt to compute now: all of it, or whole blocks within the budget."""
        rest = sequence.prefill_end - sequence.computed
        if rest <= budget:
            return rest
        # Tokens that were given behind sampled ones may begin inside a block.
        end = (sequence.computed + budget) // self._graph.block_tokens * self._graph.block_tokens
        return max(0, end - sequence.computed)

    def _draft(self, sequence: Sequence) -> tuple[int, ...]:
        """What to verify behind the last token: its draft, if memory for it is free. Nobody goes for it."""
        needed = self._block_manager.blocks_for(len(sequence.tokens) + len(sequence.draft)) - len(
            sequence.blocks
        )
        if needed > self._block_manager.free:
            return ()
        if needed > 0:
            self._block_manager.grow(sequence, needed)
        return sequence.draft

    def _hold(
        self, sequence: Sequence, count: int, chunks: list[ScheduledChunk], lost: set[Sequence]
    ) -> bool:
        """Give ``sequence`` blocks for ``count`` more tokens, or False; ``lost`` takes who went for it."""
        admission = sequence.state is SequenceState.WAITING
        # Whoever is let in gets blocks for all it has, and leaves every sequence ahead of it one to grow
        # into: otherwise it would lose them again at once.
        tokens = len(sequence.tokens) if admission else sequence.computed + count
        needed = self._block_manager.blocks_for(tokens) - len(sequence.blocks)
        if needed <= 0:
            return True
        ahead = bisect_left(self._queues.running, sequence.order, key=by_order) if admission else 0
        if not self._make_room(needed + ahead, sequence, chunks, lost):
            return False
        self._block_manager.grow(sequence, needed)
        return True

    def _make_room(
        self, blocks: int, sequence: Sequence, chunks: list[ScheduledChunk], lost: set[Sequence]
    ) -> bool:
        """Have ``blocks`` free for ``sequence``, from kept contexts and from those behind it in the order."""
        if self._block_manager.free >= blocks or self._block_manager.make_room(blocks, sequence.rank):
            return True
        victims: list[Sequence] = []
        chosen = {chunk.sequence for chunk in chunks}
        for candidate in reversed(self._queues.running):
            if candidate.order <= sequence.order:
                break
            if candidate in chosen or not self._evictable(candidate):
                continue
            victims.append(candidate)
            if (
                self._block_manager.free + self._block_manager.freed_by(victim.blocks for victim in victims)
                >= blocks
            ):
                for victim in victims:
                    self._evict(victim)
                lost.update(victims)
                return True
        return False

    def _evict(self, sequence: Sequence) -> None:
        """Take a running sequence's blocks; it waits, and computes again what is not found any more."""
        if (batch := self._batch_of.get(sequence)) is not None:
            self.drop(batch)
        self._block_manager.release(sequence)
        self._queues.send_back(sequence)
        self.evictions += 1

    def _evictable(self, sequence: Sequence) -> bool:
        """Whether its blocks can be taken now: a prefill batch may start again, a decode batch ends soon."""
        batch = self._batch_of.get(sequence)
        return batch is None or (batch.role is None and batch.stage is not Stage.DECODE)

    def check_integrity(self) -> None:
        """Check that every sequence in a pass is in that one only, and that every block has its holders.

        Raises:
            AssertionError: always a bug.
        """
        members = [(sequence, batch) for batch in self.batches for sequence in batch.sequences]
        if len({sequence for sequence, _ in members}) < len(members) or len(members) != len(self._batch_of):
            raise AssertionError("a sequence is in two passes, or twice in one")
        for sequence, batch in members:
            if self._batch_of.get(sequence) is not batch:
                raise AssertionError(f"sequence {sequence.id} is in another pass than it says")
        for sequence in self._queues.running:
            if self._block_manager.blocks_for(sequence.computed) > len(sequence.blocks):
                raise AssertionError(f"sequence {sequence.id} has computed more than its blocks hold")
        self._block_manager.check_integrity({*self._queues.running, *(sequence for sequence, _ in members)})
