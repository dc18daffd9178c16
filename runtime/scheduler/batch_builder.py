"""Builds batches: which sequences, how many tokens of each, and which blocks they get (chunked prefill).

Continuous batching happens here: every batch is built from the sequences that are ready at that moment. If
too few KV blocks are free, the last running sequences in the serving order are evicted for more urgent ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchShape
from .batch import Batch, Branch, ScheduledChunk, Stage, shape_of
from .batches_in_progress import BatchesInProgress
from .block_manager import BlockManager
from .draft_lengths import DraftLengths
from .policy import Policy
from .queues import RequestQueues
from .sequence import REACTIVE_LEVEL, Sequence, SequenceState, by_order

_MAX_INTERRUPTIONS: Final = 2
"""Interruptions in a row, after which the kernels of a sequence run to their ends."""


@dataclass(eq=False)
class BatchBuilder:
    """Starts batches, admits waiting sequences to them, and evicts sequences if too few blocks are free."""

    graph: ExecutionGraph
    policy: Policy
    queues: RequestQueues
    block_manager: BlockManager
    batches: BatchesInProgress
    """Receives the new ones."""
    max_batch_size: int
    """Sequences in a batch."""
    evictions: int = 0
    """Times a running sequence lost its blocks to a more urgent one."""
    _short_level: int | None = None
    _now: float = 0.0

    def __post_init__(self) -> None:
        """Take the present costs of the graph."""
        self._draft_lengths = DraftLengths(
            self.graph.cost_model.reshape_s, drafts_alone=not self.block_manager.quantised_keys
        )

    def update_costs(self) -> None:
        """Take what a change of shape takes from the present costs of the graph."""
        self._draft_lengths.reshape_s = self.graph.cost_model.reshape_s

    def begin_round(self, now: float) -> None:
        """Begin a round of decisions at time ``now``.

        For the rest of the round, once a waiting sequence did not get its blocks, no sequence of a less
        urgent level is admitted: it would take them as soon as they are free.
        """
        self._now = now
        self._short_level = None

    def start_batch(self, stage: Stage, level: int) -> Batch | None:
        """Start a batch of the ready sequences that fit in it; None if none is ready.

        None as well for a mixed one without a prompt, under :attr:`Policy.mixes`: decodes alone have a stage
        of their own, with backfill.
        """
        chunks = self._schedule_chunks(stage, level)
        needs_prompt = stage is Stage.MIXED and not self.policy.mixed_batches
        if needs_prompt and not any(chunk.sequence.needs_prefill for chunk in chunks):
            return None
        self._draft_lengths.shorten(chunks, self.graph.decode_seconds)
        if stage is Stage.DECODE:
            self._branch(chunks, self._free_tokens())
        longer_s = self._interruptible_s(chunk.sequence for chunk in chunks)
        ahead = self._tokens_ahead(chunks, stage)
        limit_s = self.kernel_limit_s(stage, level) if longer_s is None else longer_s
        if self._trim(chunks, limit_s, ahead):
            ahead = 0
        if not chunks:
            return None
        shape = self._shape_of(chunks)
        self._draft_lengths.note(shape.tokens)
        interruptible = self._may_interrupt(chunk.sequence for chunk in chunks) and (
            self._is_calm() or self.graph.longest_kernel_s(shape) > self.graph.quantum_s
        )
        return self.batches.start(chunks, stage, shape, interruptible=interruptible, ahead=ahead)

    def repeat(self, completed: Batch) -> Batch | None:
        """Start the next decode of all sequences of a ``completed`` batch, none of which has ended.

        Returns:
            None if :meth:`start_batch` has something to decide: the batch has verified drafts or was not one
            of decodes, a sequence has a draft, not enough blocks are free, or a kernel would take too long.
        """
        chunks, shape = completed.chunks, completed.context.shape
        if completed.stage is not Stage.DECODE or not shape.tokens == shape.logits_rows == len(chunks):
            return None
        for chunk in chunks:
            sequence = chunk.sequence
            if sequence.draft.tokens:
                return None
            needed = self.block_manager.blocks_for(sequence.computed_tokens + 1) - len(sequence.blocks)
            if needed > self.block_manager.free_blocks:
                return None
            if needed > 0:
                self.block_manager.allocate(sequence, needed)
        shape = shape._replace(past_tokens=shape.past_tokens + len(chunks))
        limit_s = self.kernel_limit_s(completed.stage, completed.level)
        if limit_s != float("inf") and self.graph.longest_kernel_s(shape) > limit_s:
            return None
        self._draft_lengths.note(shape.tokens)
        return self.batches.start(chunks, completed.stage, shape)

    def evict_background_prompts(self) -> None:
        """Evict every background sequence in prefill, except those whose kernel is running."""
        for sequence in [
            s for s in self.queues.running if s.is_background and s.needs_prefill and self._evictable(s)
        ]:
            self._evict(sequence)

    def _schedule_chunks(self, stage: Stage, level: int) -> list[ScheduledChunk]:
        """Schedule a chunk of each candidate while the batch size, the token budget and free blocks allow."""
        chunks: list[ScheduledChunk] = []
        evicted: set[Sequence] = set()
        budget: int | None = None
        planned_for: Sequence | None = None
        blocks_short = self._short_level is not None and level > self._short_level
        candidates = self._candidates(stage, level)
        decodes = sum(not sequence.needs_prefill for sequence in candidates)
        for sequence in candidates:
            if len(chunks) == self.max_batch_size:
                break
            waiting = sequence.state is SequenceState.WAITING
            if sequence in evicted or (waiting and blocks_short):
                continue
            if waiting:
                self.block_manager.attach_cached_prefix(sequence)
            elif sequence.needs_prefill:
                self.block_manager.skip_cached(sequence)
            prefill = sequence.needs_prefill
            if prefill and budget is None:
                # Each decode takes one token of the budget; the first prompt gets at least a block, so that
                # it always advances.
                budget = max(self._token_budget(sequence) - decodes, self.graph.block_tokens)
                planned_for = sequence
            length = self._chunk_length(sequence, budget) if prefill and budget is not None else 1
            if length and self._reserve_blocks(sequence, length, chunks, evicted):
                if waiting:
                    self._admit(sequence)
                if prefill:
                    length = self.block_manager.tokens_to_compute(sequence, length, self._now)
                if not length:  # the next block of its prompt is being loaded
                    budget = None if planned_for is sequence else budget
                    continue
                budget = None if budget is None else budget - length
                samples = sequence.computed_tokens + length == len(sequence.tokens)
                draft = self._draft_that_fits(sequence) if samples and not prefill else ()
                rows = length - samples if sequence.calibrates and prefill else 0
                chunks.append(ScheduledChunk(sequence, length, samples, draft, rows))
            elif waiting:
                self.block_manager.release(sequence)  # its cached prefix: a WAITING sequence holds no blocks
                # Later sequences in the queue must not take the blocks that this one waits for.
                if length > 0:
                    blocks_short, self._short_level = True, level
        # In serving order they get their blocks. What makes a batch too long are prompts, at its end.
        chunks.sort(key=lambda chunk: chunk.sequence.needs_prefill)
        return chunks

    def _candidates(self, stage: Stage, level: int) -> list[Sequence]:
        """The sequences that can be in a new batch, the most urgent first."""
        ready = self.batches.not_in_batch(self.queues.running)
        if stage is Stage.DECODE:
            return self._decodes([sequence for sequence in ready if not sequence.needs_prefill], level)
        # A batch admits no more sequences than fit in it, so the length of the queue costs nothing here.
        queue = self.queues.by_level[level]
        waiting = queue.first(self.max_batch_size)
        if self.policy.mixed_batches:
            return list(heapq.merge(ready, waiting, key=by_order))
        in_prefill = [sequence for sequence in ready if sequence.level == level and sequence.needs_prefill]
        prompts = sorted(in_prefill + waiting, key=self.queues.key) if in_prefill else waiting
        decodes = [each for each in self.queues.running_at(level) if not each.needs_prefill]
        ordered = queue.in_order([*decodes, *prompts])
        batch, others = ordered[: self.max_batch_size], ordered[self.max_batch_size :]
        if queue.is_shared and len(decodes) >= self.max_batch_size:
            # Prompts that go before decodes bring none with them that would have to wait for a place.
            others = [sequence for sequence in others if sequence.state is not SequenceState.WAITING]
        if stage is Stage.PREFILL:
            return [sequence for sequence in (*batch, *others) if sequence.needs_prefill]
        queue.note_left_out(sequence for sequence in others if not sequence.needs_prefill)
        return self.batches.not_in_batch([*batch, *others])

    def _decodes(self, decoding: list[Sequence], level: int) -> list[Sequence]:
        """Choose those of ``decoding`` that a batch of ``level`` has places for, backfill included."""
        chosen: list[Sequence] = []
        for other in (level, *(other for other in self.queues.by_level if other != level)):
            queue = self.queues.by_level[other]
            ordered = queue.in_order([sequence for sequence in decoding if sequence.level == other])
            places = self.max_batch_size if other == level else self._backfill_places(chosen, ordered)
            queue.note_left_out(ordered[places:])
            chosen += ordered[:places]
            if not chosen or not self.policy.backfill:
                break
        return chosen

    def _backfill_places(self, decodes: list[Sequence], others: list[Sequence]) -> int:
        """Return how many of ``others``, in order, decode with ``decodes`` at little cost to these."""
        pasts = [sequence.computed_tokens for sequence in (*decodes, *others)][: self.max_batch_size]
        most = self.graph.max_decode_batch(self.policy.backfill_slowdown, pasts, alone=len(decodes))
        return most - len(decodes)

    def _interruptible_s(self, sequences: Iterable[Sequence]) -> float | None:
        """Longest kernel of new chunks of ``sequences`` while nothing is more urgent than they are.

        None if a more urgent request could not interrupt it, is there, or is expected at once.
        """
        return self.graph.interruptible_s if self._is_calm() and self._may_interrupt(sequences) else None

    def _is_calm(self) -> bool:
        """Whether more urgent work is not expected at once."""
        return self.queues.is_calm(self._now)

    def _may_interrupt(self, sequences: Iterable[Sequence]) -> bool:
        """Whether a more urgent request may interrupt kernels of the next chunks of ``sequences``.

        Not if one is there: what runs then is aged. Not if a chunk begins inside a KV block, as all decodes
        do but few (see :attr:`Batch.interruptible`), or was interrupted twice.
        """
        policy = self.policy
        interrupted = policy.by_priority and not policy.restarts and not policy.time_share
        if self.graph.interruptible_s is None or not interrupted or self.queues.has_urgent_work:
            return False
        return all(
            sequence.is_background
            and sequence.needs_prefill
            and sequence.computed_tokens % self.graph.block_tokens == 0
            and sequence.interruptions < _MAX_INTERRUPTIONS
            for sequence in sequences
        )

    def kernel_limit_s(self, stage: Stage, level: int) -> float:
        """Longest kernel of a batch that may be shorter: the quantum if more urgent work may wait for it."""
        policy = self.policy
        if policy.chunk_tokens is not None:
            return float("inf")
        if level > REACTIVE_LEVEL or not policy.by_priority:
            return self.graph.quantum_s
        return float("inf") if stage is Stage.DECODE else self._reactive_kernel_s()

    def _reactive_kernel_s(self) -> float:
        """Longest kernel of a batch of reactive prompts."""
        pass_s = self.policy.reactive_pass_s / len(self.graph.bounds)
        return max(self.graph.quantum_s, self.policy.reactive_kernel_s, pass_s)

    def _shape_of(self, chunks: list[ScheduledChunk]) -> BatchShape:
        return shape_of(chunks, drafts_alone=not self.block_manager.quantised_keys)

    def _trim(self, chunks: list[ScheduledChunk], limit_s: float, ahead: int) -> bool:
        """Shorten a batch until no kernel takes longer than ``limit_s``.

        Rows of logits that nothing is sampled from go first, then drafts, then the last chunks. The token
        budget considers the first prompt only. These rows, drafts, the past of further sequences and their
        number can make kernels longer. The sequences left out stay ready for the next batch.

        ``ahead`` tokens of its only chunk have kernels of their own, which are short enough. Returns whether
        the last prompt has become shorter, so that one XPU is to compute it.
        """
        if limit_s == float("inf"):
            return False
        drafted = [place for place, chunk in enumerate(chunks) if chunk.draft]
        calibrating = [place for place, chunk in enumerate(chunks) if chunk.prompt_rows]
        while (calibrating or drafted or len(chunks) > 1) and self._longest_s(chunks, ahead) > limit_s:
            if calibrating:
                place = calibrating[-1]
                rows = chunks[place].prompt_rows // 2
                chunks[place] = chunks[place]._replace(prompt_rows=rows)
                if not rows:
                    calibrating.pop()
            elif drafted:
                place = drafted.pop()
                chunks[place] = chunks[place]._replace(draft=(), branches=())
            else:
                chunks.pop()
        if not chunks or self._longest_s(chunks, ahead) <= limit_s:
            return False
        before, chunks[-1] = chunks[-1], self._shortened(chunks[-1], limit_s)
        return chunks[-1] is not before

    def _longest_s(self, chunks: list[ScheduledChunk], ahead: int) -> float:
        """Return the seconds of the longest kernel behind the ``ahead`` first tokens of the only chunk."""
        shape = self._shape_of(chunks)
        if ahead:
            rows = min(shape.logits_rows, shape.tokens - ahead)
            shape = BatchShape(shape.tokens - ahead, 1, shape.past_tokens + ahead, rows)
        return self.graph.longest_kernel_s(shape)

    def _shortened(self, chunk: ScheduledChunk, limit_s: float) -> ScheduledChunk:
        """Return the chunk of a prompt that was to be computed by both XPUs, as one computes it."""
        budget = self.graph.token_budget(chunk.start, chunk.length, limit_s)
        length = self._chunk_length(chunk.sequence, budget)
        if not chunk.sequence.needs_prefill or not 0 < length < chunk.length:
            return chunk
        return chunk._replace(length=length, samples=False, prompt_rows=min(chunk.prompt_rows, length))

    def _token_budget(self, first: Sequence) -> int:
        """Tokens in a batch whose first prompt is ``first``: the most whose kernels stay within their limit.

        The limit of a kernel is the quantum, for reactive prompts :meth:`_reactive_kernel_s`, and for
        background prompts that can be interrupted :meth:`_interruptible_s`.
        """
        policy = self.policy
        if policy.chunk_tokens is not None:
            return policy.chunk_tokens
        past, left = first.computed_tokens, first.prefill_end - first.computed_tokens
        longest_s = self._interruptible_s((first,))
        if longest_s is not None:
            return self.graph.token_budget(past, left, longest_s)
        within_quantum = self.graph.token_budget(past, left, self.graph.quantum_s)
        if (paired := self._paired_budget(first)) is not None:
            return paired
        if first.is_background or not policy.by_priority:
            return within_quantum
        longer = self.graph.token_budget(past, left, self._reactive_kernel_s())
        return max(within_quantum, min(longer, policy.reactive_chunk_tokens))

    def _paired_budget(self, prompt: Sequence) -> int | None:
        """Tokens of the next chunk of ``prompt`` that both XPUs compute; None where one computes it (§6.1).

        Decodes that are as urgent need one of them. In a hybrid model layers also read the state behind the
        tokens before.
        """
        if self.block_manager.keeps_states or prompt.computed_tokens % self.graph.block_tokens:
            return None
        if any(not each.needs_prefill and each.level <= prompt.level for each in self.queues.running):
            return None
        return self.graph.paired_budget(prompt.computed_tokens, prompt.prefill_end - prompt.computed_tokens)

    def _tokens_ahead(self, chunks: list[ScheduledChunk], stage: Stage) -> int:
        """Return the tokens of the only chunk that the PREFILL XPU computes while the other does the rest.

        0 where one XPU computes whole chunks.
        """
        static = self.graph.static_tokens
        if static is None or stage is not Stage.PREFILL or len(chunks) != 1 or chunks[0].length < static + 2:
            return 0
        budget = self._paired_budget(chunks[0].sequence)
        return static if budget is not None and chunks[0].length <= budget else 0

    def _chunk_length(self, sequence: Sequence, budget: int) -> int:
        """Length of the next chunk of a prompt: the rest, or up to a block boundary within the budget.

        Where keys are not quantised, no chunk has or leaves one token; it may end inside a block instead.
        Devices compute one token by other kernels, so that the answer would depend on the division.
        """
        left = sequence.prefill_end - sequence.computed_tokens
        if left <= budget:
            return left
        # Given tokens follow sampled ones, so that their first chunk may begin inside a block.
        end = (sequence.computed_tokens + budget) // self.graph.block_tokens * self.graph.block_tokens
        length = max(0, end - sequence.computed_tokens)
        if self.block_manager.quantised_keys or self.block_manager.keeps_states:
            return length
        if length == 1:
            length = budget
        if length == left - 1:
            length -= 1
        return length if length > 1 else 0  # it waits for a batch with more room

    def _draft_that_fits(self, sequence: Sequence) -> tuple[int, ...]:
        """The sequence's draft if free blocks can hold it, else (): no sequence is evicted for a draft.

        A hybrid model verifies none: its state behind a rejected token could not be taken back.
        """
        draft = sequence.draft.tokens
        if not draft or self.block_manager.keeps_states:
            return ()
        tokens = len(sequence.tokens) + len(draft)
        needed = self.block_manager.blocks_for(tokens) - len(sequence.blocks)
        if needed > self.block_manager.free_blocks:
            return ()
        if needed > 0:
            self.block_manager.allocate(sequence, needed)
        return draft

    def _free_tokens(self) -> int:
        """Tokens of a batch of decodes that take as long as one: those of an NPU's graph for decoding."""
        return self.graph.decode_tokens or 0 if self.graph.decodes_split else 0

    def _branch(self, chunks: list[ScheduledChunk], tokens: int) -> None:
        """Add branches to a batch of decodes, the likeliest first, until it has ``tokens`` tokens."""
        room = tokens - self._shape_of(chunks).tokens
        for at, chunk in enumerate(chunks):
            branches: list[Branch] = []
            for draft in chunk.sequence.alternatives if chunk.draft else ():
                drafted = draft.tokens[: max(0, room - 1)]
                branch = self.block_manager.branch(chunk, branches, drafted) if drafted else None
                if branch is None:
                    break
                branches.append(branch)
                room -= 1 + len(drafted)
            chunks[at] = chunk._replace(branches=tuple(branches))

    def _admit(self, sequence: Sequence) -> None:
        """Admit a waiting sequence whose blocks are reserved."""
        self.block_manager.end_return(sequence)
        self.queues.admit(sequence)
        if sequence.cached_tokens is None:
            sequence.cached_tokens = sequence.computed_tokens
        self.block_manager.begin_loads(sequence, self._now)

    def _reserve_blocks(
        self, sequence: Sequence, length: int, chunks: list[ScheduledChunk], evicted: set[Sequence]
    ) -> bool:
        """Allocate blocks for ``length`` more tokens of ``sequence``; return whether there are enough.

        ``evicted`` receives the sequences whose blocks were taken for it.
        """
        waiting = sequence.state is SequenceState.WAITING
        # A waiting sequence is admitted only if there are blocks for all its tokens, and one more free block
        # for each running sequence that is served before it. Those may need one to decode into, and would
        # evict the new sequence to get it.
        tokens = len(sequence.tokens) if waiting else sequence.computed_tokens + length
        needed = self.block_manager.blocks_for(tokens) - len(sequence.blocks)
        if needed <= 0:
            return True
        blocks = needed + (self.queues.preceding(sequence) if waiting else 0)
        if not self.block_manager.room_for(blocks, sequence.level, admitting=waiting):
            victims = self._victims(blocks, sequence, {chunk.sequence for chunk in chunks}, admitting=waiting)
            for victim in victims:
                self._evict(victim)
            evicted.update(victims)
            # A load may have started since the victims were chosen, so that its block is not free yet.
            if not victims or not self.block_manager.room_for(blocks, sequence.level, admitting=waiting):
                return False
        self.block_manager.allocate(sequence, needed)
        return True

    def _victims(
        self, blocks: int, sequence: Sequence, scheduled: set[Sequence], *, admitting: bool
    ) -> list[Sequence]:
        """The sequences to evict so that ``blocks`` are free; empty if evicting all would not free that many.

        They are taken from the end of the serving order (:meth:`RequestQueues.yielding`). ``admitting`` a
        sequence takes state rows as well, in a hybrid model.
        """
        victims: list[Sequence] = []
        for candidate in self.queues.yielding(sequence):
            if candidate in scheduled or not self._evictable(candidate):
                continue
            victims.append(candidate)
            if self.block_manager.room_for(blocks, sequence.level, admitting=admitting, without=victims):
                return victims
        return []

    def _evict(self, sequence: Sequence) -> None:
        """Release a running sequence's blocks and queue it again; its batch, if it is in one, is dropped.

        When it is admitted again, it recomputes what the prefix cache has lost.
        """
        if (batch := self.batches.containing(sequence)) is not None:
            self.batches.drop(batch)
        if sequence.state is not SequenceState.WAITING:  # dropping its batch may have queued it
            self.block_manager.release(sequence)
            self.queues.requeue(sequence)
        self.evictions += 1
        sequence.evictions += 1

    def _evictable(self, sequence: Sequence) -> bool:
        """Whether its blocks can be taken now: no kernel is writing to them, and it is in no decode batch.

        Evicting a sequence drops its batch. Chunks that begin on a block boundary start again as they were;
        sequences whose chunk begins inside a block, as the decodes of a mixed batch do, first recompute that
        block (:meth:`BatchesInProgress.drop`). All of a decode batch would have to, and it ends soon.
        """
        batch = self.batches.containing(sequence)
        return batch is None or (batch.running_on is None and batch.stage is not Stage.DECODE)
