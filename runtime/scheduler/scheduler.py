"""The scheduler: decides which kernel runs next on which XPU (Agent.xpu §6). No threads, no clock, no I/O.

Events come in (a request is added or finished, a kernel is done, a kernel failed), decisions go out: for
every idle XPU, :meth:`Scheduler.schedule` selects the most urgent kernel that may run there now. The rules:

- **Two priority levels.** Reactive work goes first on every XPU. Background work takes what is left: places
  in the reactive decode batch up to B_max (§6.3, intra-XPU), and XPUs that reactive work does not use
  (inter-XPU). By aging (§6.5), background work that is promoted after some time gets every eighth kernel.
- **Kernel-level preemption.** A batch is preempted between two of its kernels by not submitting the next one
  (§6.2). Nothing is copied or computed again. While nothing is more urgent, kernels of background prompts may
  be longer than the quantum, where the caller can interrupt them: these are computed again, from their first
  operation.
- **Prefill and decode are separate batches** (§5.2), except in mixed batches (:attr:`Policy.mixes`). Within a
  level prompts go first, so that the decode batch fills up, but they delay decodes no longer than the
  policy's gap.
- **Apps share a level** (:mod:`.fair_queue`). The app that was served least goes first: its prompts, and its
  sequences in a batch of decodes. A running sequence without a place in the batch keeps its blocks.
- **Eviction** (vLLM's preemption by recomputation). An admitted sequence gets blocks for all its tokens. When
  a running sequence needs more than are free, the last sequences in the serving order are evicted: they wait
  again, and recompute what the prefix cache has lost. The first sequence in the order can take the blocks of
  all others, and every sequence alone fits the arena; so the first always advances and none is lost. A
  waiting sequence takes blocks of another app only once that app is ahead by a turn of tokens that were not
  computed before; so no two apps evict each other without advancing.
- **Loads** (LLMS §3.3). What is stored of an admitted prompt is read into its blocks while others are
  computed. A sequence that waits for a chunk is in no batch and delays none.

None of this can change what a model says. Quantised keys depend on which tokens were written together. So a
prompt chunk that is cut short ends on a block boundary, tokens that were sampled one by one are recomputed
one by one, and a token that a dropped batch has written inside a block is written again from the block's
first token.
"""

from __future__ import annotations

import itertools
from collections import abc
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchContext, BatchShape, GraphLoad, KernelKind, Role
from ..heg.profile import KernelCost, Profile
from ..kv.block_pool import BlockPool
from ..kv.swap.chunks import NO_SWAPPER, ChunkSwapper
from ..kv.swap.costs import LinearCost
from .batch import Batch, Branch
from .batch_builder import BatchBuilder
from .batches_in_progress import BatchesInProgress
from .block_manager import BlockManager
from .chunk_loads import ChunkLoads, SwapOuts
from .draft import Draft
from .graph_switcher import GraphSwitcher, PrefillWork
from .kernel_selector import KernelSelector
from .launch_decision import ActiveKernels, ScheduledKernel
from .policy import Policy
from .queues import RequestQueues
from .sequence import Sequence, SequenceState
from .state_rows import StateManager


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStatistics:
    """A snapshot. Counters only grow; ``running`` and ``waiting`` are the present numbers."""

    running: int
    """Sequences that hold KV blocks."""
    waiting: int
    """Sequences that hold no KV blocks."""
    preemptions: int
    """Forward passes that were paused between two kernels for a more urgent one."""
    evictions: int
    """Sequences whose KV blocks were taken by more urgent ones, and which were recomputed."""
    loaded_contexts: int
    """Sequences for which stored chunks were loaded (LLMS §3.3)."""
    recomputed_chunks: int
    """Stored chunks that were computed all the same: it was quicker, or they were damaged."""
    switch_s: float
    """Seconds that these waited, together, from their admission until nothing was being loaded for them."""


class Scheduler:
    """All unfinished sequences, all batches in progress, and the pool of KV blocks. Not thread-safe."""

    def __init__(
        self,
        pool: BlockPool,
        graph: ExecutionGraph,
        policy: Policy,
        *,
        max_batch_size: int,
        quantised_keys: bool,
        share_sampled: bool,
        state_pool: BlockPool | None = None,
        swapper: ChunkSwapper = NO_SWAPPER,
    ) -> None:
        """``max_batch_size`` is in sequences. For the next three see :class:`BlockManager`.

        ``swapper`` stores and loads the chunks of named apps; a hybrid model has none that are stored.
        """
        self.policy = policy
        self._graph = graph
        self.loads = ChunkLoads(pool, graph.block_tokens, swapper, self._recompute_cost)
        """To note there which loads the swapper has ended (:meth:`ChunkLoads.complete`)."""
        self.swap_outs = SwapOuts(pool, graph.block_tokens, swapper)
        """To note there which blocks the swapper has copied (:meth:`SwapOuts.release`)."""
        self.block_manager = BlockManager(
            pool=pool,
            states=None if state_pool is None else StateManager(state_pool, graph.block_tokens),
            block_tokens=graph.block_tokens,
            share=policy.prefix_reuse,
            quantised_keys=quantised_keys,
            share_sampled=share_sampled,
            loads=self.loads,
            swap_outs=self.swap_outs,
            stores_chunks=swapper is not NO_SWAPPER,
        )
        """What KV blocks are held for, to be read."""
        self.queues = RequestQueues(policy, graph, max_batch_size)
        """The unfinished sequences, to be read."""
        self._batches = BatchesInProgress(graph, policy, self.queues, self.block_manager)
        self._builder = BatchBuilder(
            graph, policy, self.queues, self.block_manager, self._batches, max_batch_size
        )
        self._active: ActiveKernels = {}
        self._selector = KernelSelector(self._builder, self._active)
        self.switcher = GraphSwitcher(graph)
        """To note there how the PREFILL XPU has loaded a graph, and that it was rebuilt."""
        self._only_batch: tuple[Batch, int] | None = None
        """The batch of the last kernel, on a platform of one XPU, if it had all unfinished sequences, and
        :attr:`_changes` then: it has them as long as that is equal."""

    def use_costs(self, cost_model: Profile) -> None:
        """Decide by other estimates of the same kernels from now on."""
        self._graph.use_costs(cost_model)
        for part in (self.queues, self._builder, self._selector, self.switcher):
            part.update_costs()

    # State.

    def statistics(self) -> SchedulerStatistics:
        """Return the counters. Cheap, and callable from any thread at any time."""
        return SchedulerStatistics(
            running=len(self.queues.running),
            waiting=self.queues.num_waiting,
            preemptions=self._selector.preemptions,
            evictions=self._builder.evictions,
            loaded_contexts=self.loads.begun,
            recomputed_chunks=self.loads.recomputed,
            switch_s=self.loads.switch_s,
        )

    @property
    def usable_tokens(self) -> int:
        """Tokens that fit if one sequence had every usable block (see :meth:`fail_kernel`)."""
        return self.block_manager.usable_tokens

    @property
    def busy_roles(self) -> list[Role]:
        """The XPUs on which kernels are running."""
        return list(self._active)

    def kernel_on(self, role: Role) -> ScheduledKernel:
        """The kernel that runs on ``role``, which is busy."""
        return self._active[role]

    def hang_timeout_s(self, cost: KernelCost) -> float:
        """Seconds after which a kernel of ``cost`` counts as hung."""
        return max(self.policy.hang_timeout_s, 50 * cost.seconds)

    def next_timeout(self) -> float:
        """When a deadline passes next, a kernel counts as hung, or a return is expected no longer.

        Returns count only while sequences wait, as it may be for their blocks. With loads, also the time at
        which a sequence that waits for a chunk may find it quicker to compute it.
        """
        times = [self._hung_at(kernel) for kernel in self._active.values()]
        times += (self.queues.next_deadline, self.loads.next_decision)
        if self.queues.num_waiting:
            times.append(self.block_manager.next_expiry())
        return min(times)

    # Events.

    def add(self, sequence: Sequence, now: float) -> Sequence | None:
        """Add a WAITING sequence. It must fit the arena alone, answer included.

        Returns:
            The sequence that was shed because too many wait, now FINISHED: the one that would be served last,
            which may be ``sequence`` itself.
        """
        self.queues.add(sequence, now)
        self.block_manager.note_arrival(sequence, self.policy.tool_wait_s)
        if self.policy.restarts and not sequence.is_background:
            self._builder.evict_background_prompts()
        if self.queues.num_waiting <= self.policy.max_waiting:
            return None
        shed = self.queues.last_waiting
        self.finish(shed)
        return shed

    def finish(self, sequence: Sequence) -> None:
        """End a sequence in any state, for any reason; its blocks are released once it is in no batch.

        What it has computed is stored, where chunks are.
        """
        if sequence.state is SequenceState.FINISHED:
            return
        self.block_manager.swap_out(sequence)
        self.queues.finish(sequence)
        batch = self._batches.containing(sequence)
        if batch is None:
            self.block_manager.release(sequence)
        elif batch.running_on is None and batch.all_finished:
            self._batches.drop(batch)

    def set_draft(self, sequence: Sequence, draft: Draft, alternatives: abc.Sequence[Draft] = ()) -> None:
        """Have the next decode of a DECODE sequence verify ``draft``, which replaces any earlier draft.

        It verifies as many of its tokens as are worth their time (:meth:`DraftLengths.shorten`). Sample from
        all logits rows of its chunk, in order, as long as the sampled token equals the draft token, and call
        :meth:`accept_draft_token` for each that does.

        An NPU that decodes verifies ``alternatives``, too, as far as there is room. Where the sampled tokens
        are those of such a branch, call :meth:`take_branch` before their first one that the draft lacks.
        """
        if sequence.alternatives:
            self.block_manager.release_spare(sequence)
        sequence.draft, sequence.alternatives = draft, tuple(alternatives)

    def take_branch(self, sequence: Sequence, branches: abc.Sequence[Branch], branch: Branch) -> None:
        """Note that one of ``branches`` is accepted in place of the draft, or of one that was among them."""
        self.block_manager.take_branch(sequence, branches, branch)

    def accept_draft_token(self, sequence: Sequence) -> None:
        """Note that a draft token, now the last of ``tokens``, was accepted: it is computed already."""
        self.queues.charge(sequence, 1)
        self._batches.advance(sequence, 1)

    def extend(self, sequence: Sequence, tokens: Iterable[int]) -> None:
        """Append given ``tokens`` to a DECODE sequence, which keeps its blocks; they are prefilled in chunks.

        They must fit the arena, and so must what may be sampled behind them.
        """
        self.queues.extend(sequence, tokens)

    def expect_return(self, sequence: Sequence, calls: Collection[str], now: float) -> None:
        """Expect the next turn of a FINISHED sequence, whose answer has called these tools."""
        if self.policy.tool_wait_s > 0:
            self.block_manager.expect_return(sequence, calls, now, self.policy.tool_wait_s)

    def complete_kernel(self, role: Role, now: float) -> Batch | None:
        """Note that the kernel on ``role`` is done.

        Returns:
            Its batch, if that was the last kernel: sample for the chunks of unfinished sequences, in order.
        """
        scheduled = self._end_kernel(role)
        batch = scheduled.batch
        scheduled.context.position += 1
        if batch.failed is not None:
            self._batches.drop_failed(batch)
        elif batch.all_finished:
            if batch.running_on is None:
                self._batches.drop(batch)
        elif batch.is_complete:
            self._batches.complete(batch)
            self._selector.note_completed(batch, now)
            return batch
        elif self.policy.restarts and batch.is_background and self.queues.has_reactive_work:
            self._builder.evict_background_prompts()
        return None

    def interrupt_kernel(self, role: Role) -> None:
        """Note that the kernel on ``role``, of an :attr:`~Batch.interruptible` batch, ended unfinished.

        It will be started again, or its batch is built anew, of shorter kernels, if that was so before.
        """
        self._batches.interrupt(self._end_kernel(role).batch)

    def fail_kernel(self, role: Role, *, hung: bool) -> list[Sequence]:
        """Note that the kernel on ``role`` failed, or ``hung`` and may write to its blocks at any time.

        The blocks it was writing to are discarded, and quarantined if it hung; all others are sound.

        Returns:
            The sequences that have failed ``policy.max_faults`` times, now FINISHED.
        """
        given_up = self._batches.fail(self._end_kernel(role).batch, hung=hung)
        for sequence in given_up:
            self.finish(sequence)
        return given_up

    def _end_kernel(self, role: Role) -> ScheduledKernel:
        """Remove the kernel on ``role`` from the active ones, and return it."""
        ended = self._active.pop(role)
        ended.context.running_on = None
        return ended

    def expire(self, now: float) -> list[Sequence]:
        """Finish sequences whose deadline has passed, a few in one call, and return them."""
        expired = self.queues.pop_expired(now)
        for sequence in expired:
            self.finish(sequence)
        return expired

    def hung_kernels(self, now: float) -> list[Role]:
        """The XPUs whose kernel has run for longer than :meth:`hang_timeout_s`."""
        return [role for role, kernel in self._active.items() if self._hung_at(kernel) <= now]

    def take_dropped_contexts(self) -> list[BatchContext]:
        """Return the contexts of batches dropped since the last call; the caller releases their buffers."""
        return self._batches.take_dropped_contexts()

    def check_integrity(self) -> None:
        """Check that no block is lost and that queues, batches and running kernels agree.

        Raises:
            AssertionError: always a bug.
        """
        self.queues.check_integrity()
        self._batches.check_integrity()
        running = {batch for batch in self._batches if batch.running_on is not None}
        if running != {kernel.batch for kernel in self._active.values()}:
            raise AssertionError("a batch counts as running without a running kernel, or the reverse")

    # Decisions.

    def schedule(
        self, now: float, *, background: bool = True, reactive_elsewhere: bool = False
    ) -> list[ScheduledKernel]:
        """Start the next kernel on every idle XPU where one may run; the caller submits them.

        ``background`` says whether kernels of background work may start, ``reactive_elsewhere`` whether
        another engine on this machine has reactive work, which they would delay.
        """
        self.queues.reactive_elsewhere = reactive_elsewhere
        self.block_manager.expire(now)
        self.queues.promote_aged(now)
        only = self._next_of_only_batch(background=background and not reactive_elsewhere)
        if only is not None:
            self.queues.note_urgency(not only.is_background, now)
            scheduled = [self._selector.select_next(only, now)]
        else:
            scheduled = self._select_kernels(now, background=background)
        self._note_only_batch(scheduled)
        return scheduled

    @property
    def _changes(self) -> int:
        """A number that grows when anything changes that the selection of a kernel depends on."""
        return self.queues.changes + self._batches.changes

    def _next_of_only_batch(self, *, background: bool) -> Batch | None:
        """Return the batch with all unfinished sequences, or the next decode of these; None without one.

        There is then nothing to select. ``background`` says whether it may be one of background work.
        """
        if self._only_batch is None or self._only_batch[1] != self._changes:
            return None
        batch = self._only_batch[0]
        if batch.running_on is not None or (batch.is_background and not background):
            return None
        return batch if batch.context.next_kernel is not None else self._builder.repeat(batch)

    def _note_only_batch(self, scheduled: list[ScheduledKernel]) -> None:
        self._only_batch = None
        if scheduled and self._graph.static_tokens is None and not self.queues.num_waiting:
            (kernel,) = scheduled
            if len(kernel.batch.chunks) == len(self.queues.running):
                self._only_batch = (kernel.batch, self._changes)

    def _select_kernels(self, now: float, *, background: bool) -> list[ScheduledKernel]:
        """Select kernels for idle XPUs until none may run."""
        self.queues.note_urgency(self.queues.has_urgent_work, now)
        self._builder.begin_round(now)
        self.loads.begin_round()
        scheduled: list[ScheduledKernel] = []
        while True:
            running = len(self.queues.running)
            while (kernel := self._selector.select(now, background=background)) is not None:
                scheduled.append(kernel)
            self._batches.drop_unstarted()
            # What a batch that was not started has admitted is no longer in a queue, so that further
            # sequences come into view, with which a batch may start.
            if len(self.queues.running) <= running:
                return scheduled

    def next_graph_load(self) -> GraphLoad | None:
        """Return the graph that the PREFILL XPU is to load now, if any."""
        return self.switcher.next_load(self._prefill_work()) if self.switcher.has_two_graphs else None

    def _prefill_work(self) -> PrefillWork | None:
        """What is left to prefill in chunks of the static shape; None without unfinished requests."""
        static = self._graph.static_tokens
        assert static is not None
        waiting = self.queues.num_waiting
        if waiting or not self.queues.running:
            return PrefillWork(float("inf"), None) if waiting else None
        prompts = [sequence for sequence in self.queues.running if sequence.needs_prefill]
        chunks = sum((prompt.prefill_end - prompt.computed_tokens) // static for prompt in prompts)
        for context in itertools.chain.from_iterable(batch.contexts for batch in self._batches):
            groups = [k.segments.start for k in context.remaining if k.kind is KernelKind.TOKENS]
            if context.shape.tokens == static and groups:
                return PrefillWork(max(0, chunks - 1), groups[0])
        return PrefillWork(chunks, None)

    def _recompute_cost(self, past_tokens: int) -> LinearCost:
        """Return T_re of LLMS §3.3: seconds by blocks, fitted to a short and a long chunk."""
        size = self._graph.block_tokens
        points = []
        for blocks in (1, max(2, self._graph.max_chunk_tokens // size)):
            seconds = self._graph.decode_seconds(BatchShape(blocks * size, 1, past_tokens, 0))
            points.append((blocks, seconds))
        return LinearCost.fit(points)

    def _hung_at(self, kernel: ScheduledKernel) -> float:
        return kernel.started + self.hang_timeout_s(kernel.cost)
