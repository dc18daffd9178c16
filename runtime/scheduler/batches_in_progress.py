"""The batches in progress, from their start until they are completed, dropped or failed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchContext, BatchShape, Kernel, Role
from .batch import Batch, ScheduledChunk, Stage
from .block_manager import BlockManager
from .draft import NO_DRAFT
from .policy import Policy
from .queues import RequestQueues
from .sequence import Sequence, SequenceState


@dataclass(eq=False)
class BatchesInProgress:
    """Every started batch, whether an XPU executes a kernel of it now or it is paused between two.

    A sequence is in at most one batch.
    """

    graph: ExecutionGraph
    policy: Policy
    queues: RequestQueues
    block_manager: BlockManager
    changes: int = 0
    """Times that a batch was dropped or interrupted."""

    def __post_init__(self) -> None:
        """Begin without batches."""
        self._ids = itertools.count()
        self._batches: list[Batch] = []
        self._batch_of: dict[Sequence, Batch] = {}
        self._dropped: list[BatchContext] = []

    def __iter__(self) -> Iterator[Batch]:
        """All batches, in the order in which they were started."""
        return iter(self._batches)

    def containing(self, sequence: Sequence) -> Batch | None:
        """The batch that ``sequence`` is in, if any."""
        return self._batch_of.get(sequence)

    def not_in_batch(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Those of ``sequences`` that are in no batch, in order."""
        return [sequence for sequence in sequences if sequence not in self._batch_of]

    def start(
        self,
        chunks: list[ScheduledChunk],
        stage: Stage,
        shape: BatchShape,
        *,
        interruptible: bool = False,
        ahead: int = 0,
    ) -> Batch:
        """Start a batch of ``chunks``, of ``shape``, whose sequences hold the blocks it writes to.

        The first ``ahead`` tokens of its only chunk get a context of their own, which gives no logits. For
        ``interruptible`` see :class:`Batch`.
        """
        # A batch of decodes may have as many tokens as a static chunk, but begins where decodes may run.
        avoid = Role.PREFILL if stage is Stage.DECODE and not self.graph.decodes_split else None
        first, kernels = None, None
        if ahead:
            (chunk,) = chunks
            first = self._new_context(shape._replace(tokens=ahead, logits_rows=0))
            rows = min(chunk.prompt_rows, chunk.length - ahead - chunk.samples)
            chunks = [chunk := chunk._replace(prompt_rows=rows)]
            shape = BatchShape(shape.tokens - ahead, 1, shape.past_tokens + ahead, chunk.logits_rows)
            kernels = self.graph.segment_kernels  # each begins as soon as its layers are written ahead
        context = self._new_context(shape, kernels or self.graph.kernels_for(shape, avoid=avoid))
        level = min(chunk.sequence.level for chunk in chunks)
        batch = Batch(chunks, stage, level, context, ahead=first, interruptible=interruptible)
        self._batches.append(batch)
        for chunk in chunks:
            self._batch_of[chunk.sequence] = batch
            self.queues.charge(chunk.sequence, chunk.length)
            self.block_manager.start(chunk.sequence, chunk.length)
        return batch

    def _new_context(self, shape: BatchShape, kernels: tuple[Kernel, ...] | None = None) -> BatchContext:
        return BatchContext(next(self._ids), None, shape, kernels or self.graph.kernels_for(shape))

    def complete(self, batch: Batch) -> None:
        """Remove ``batch``, all kernels of which are done: its tokens are in the arena."""
        self._batches.remove(batch)
        for chunk in batch.chunks:
            sequence = chunk.sequence
            del self._batch_of[sequence]
            if sequence.state is SequenceState.FINISHED:
                self.block_manager.release(sequence)
                continue
            self.advance(sequence, chunk.length)
            sequence.interruptions = 0
            self.block_manager.complete(sequence)
            if chunk.samples:
                sequence.draft = NO_DRAFT
                sequence.state = SequenceState.DECODE
                sequence.faults = 0

    def advance(self, sequence: Sequence, tokens: int) -> None:
        """Note that ``tokens`` more tokens of the sequence are in the arena."""
        before = sequence.computed_tokens
        sequence.computed_tokens += tokens
        self.block_manager.cache_full_blocks(sequence, before)

    def drop(self, batch: Batch) -> None:
        """Discard ``batch``, of which no kernel is running. Its unfinished sequences keep their blocks.

        What its executed kernels wrote is written again. Quantised keys depend on which tokens were written
        together, so a sequence whose chunk began inside a block recomputes that block from its first token.
        In a hybrid model, where the state behind that token is lost, it loses its blocks and waits.
        """
        self.changes += 1
        self._batches.remove(batch)
        self._dropped += batch.contexts
        for sequence in batch.sequences:
            del self._batch_of[sequence]
            if sequence.state is SequenceState.FINISHED:
                self.block_manager.release(sequence)
                continue
            self.block_manager.abandon(sequence)
            if batch.has_written and self.block_manager.rewind_to_block(sequence):
                self._resume(sequence)

    def drop_unstarted(self) -> None:
        """Drop batches of which no kernel has run.

        Their sequences are then in no batch, and the next :meth:`Scheduler.schedule` builds batches of them
        and of sequences that have arrived meanwhile.
        """
        for batch in [b for b in self._batches if not b.has_written and b.running_on is None]:
            self.drop(batch)

    def interrupt(self, batch: Batch) -> None:
        """Note that the running kernel of an interruptible ``batch`` ended unfinished.

        It will be started again, or its sequences get a batch of shorter kernels, if that was so before.
        """
        self.changes += 1
        again = batch.interrupted_at == batch.context.position
        batch.interrupted_at = batch.context.position
        for sequence in batch.sequences:
            sequence.interruptions += 1
        if again or batch.all_finished:
            self.drop(batch)

    def fail(self, batch: Batch, *, hung: bool) -> list[Sequence]:
        """Note that a kernel of ``batch`` failed, and drop it as soon as no other one of it runs.

        Returns:
            The unfinished sequences that have now failed ``max_faults`` times.
        """
        batch.failed = hung or bool(batch.failed)
        unfinished = [s for s in batch.sequences if s.state is not SequenceState.FINISHED]
        for sequence in unfinished:
            sequence.faults += 1
        self.drop_failed(batch)
        return [sequence for sequence in unfinished if sequence.faults >= self.policy.max_faults]

    def drop_failed(self, batch: Batch) -> None:
        """Drop a failed batch unless a kernel of it runs.

        Each of its sequences resumes at the first block that the batch wrote to.
        """
        if batch.running_on is not None:
            return
        for chunk in batch.chunks:
            written = chunk.length + len(chunk.draft)
            if chunk.branches:  # up to the end of the table
                written = self.block_manager.capacity(chunk.sequence) - chunk.sequence.computed_tokens
            self.block_manager.roll_back(chunk.sequence, written, quarantine=bool(batch.failed))
        self.drop(batch)
        for sequence in batch.sequences:
            if sequence.state is not SequenceState.FINISHED:
                self._resume(sequence)

    def _resume(self, sequence: Sequence) -> None:
        """Have a running sequence compute again what it has lost; without blocks it waits for them."""
        sequence.state = SequenceState.PREFILL
        if not sequence.blocks:
            self.queues.requeue(sequence)

    def take_dropped_contexts(self) -> list[BatchContext]:
        """Return the contexts of batches dropped since the last call; the caller releases their buffers."""
        dropped = self._dropped
        if dropped:
            self._dropped = []
        return dropped

    def check_integrity(self) -> None:
        """Check that no sequence is in two batches, and that sequences account for every block."""
        members = [(sequence, batch) for batch in self._batches for sequence in batch.sequences]
        if len({sequence for sequence, _ in members}) < len(members) or len(members) != len(self._batch_of):
            raise AssertionError("a sequence is in two batches, or twice in one")
        for sequence, batch in members:
            if self._batch_of.get(sequence) is not batch:
                raise AssertionError(f"sequence {sequence.id} is listed under another batch than its own")
        for sequence in self.queues.running:
            if self.block_manager.blocks_for(sequence.computed_tokens) > len(sequence.blocks):
                raise AssertionError(f"sequence {sequence.id} has computed more than its blocks hold")
        self.block_manager.check_integrity({*self.queues.running, *(sequence for sequence, _ in members)})
