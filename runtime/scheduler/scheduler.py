"""Decides which kernel runs next on which XPU (Agent.xpu §6). Pure state: no threads, no clock, no I/O.

Events come in (a request arrives or ends, a kernel is done, a kernel failed), decisions go out: at every idle
XPU, :meth:`Scheduler.dispatch` looks for the most urgent kernel that may run there now. Everything else
follows from a few rules:

- **Two classes.** Reactive work goes first on every XPU; background work takes what is left: places in the
  reactive decode batch up to B_max (§6.3, intra-XPU), and XPUs that reactive work does not use (inter-XPU).
  Promoted background work, which has waited too long, gets a kernel now and then (§6.5).
- **Preemption is not going on.** A pass that something more urgent overtakes stays as it is between two of
  its kernels (§6.2). Nothing is copied or computed again.
- **Prompts and decodes are passes of their own** (§5.2). Within a class prompts go first, so that the decode
  batch fills up, but they keep decodes waiting no longer than the policy's gap.
- **Memory.** Whoever is admitted holds blocks for all it has. A sequence that needs more takes them from the
  last in the order; those wait, and compute again what can no longer be found. The first in the order can
  take from everyone and every sequence fits the arena, so that one always advances and none is lost.

None of this can change what a model says. Quantised keys depend on which tokens were written together, so
prompt chunks end on block boundaries wherever they are cut, tokens that were sampled one by one are computed
again one by one, and a decode pass once begun is never begun again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..context.blocks import BlockPool
from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchContext, KernelCost, Role
from .batch import Batch
from .batch_builder import BatchBuilder
from .block_manager import BlockManager
from .kernel_selector import Dispatch, KernelSelector
from .policy import Policy, Preemption
from .prefill_estimate import PrefillEstimate
from .queues import RequestQueues
from .running_kernels import RunningKernel, RunningKernels
from .sequence import Sequence, SequenceState


class Scheduler:
    """Owns every sequence that is alive, every pass in progress, and the pool of blocks. Not thread-safe."""

    def __init__(
        self,
        pool: BlockPool,
        graph: ExecutionGraph,
        policy: Policy,
        *,
        max_batch_size: int,
        share_sampled: bool,
    ) -> None:
        """``max_batch_size`` is in sequences; ``share_sampled``: see :class:`BlockManager`."""
        self.policy = policy
        self._block_manager = BlockManager(
            pool, graph.block_tokens, share=policy.prefix_reuse, share_sampled=share_sampled
        )
        self._queues = RequestQueues(policy, PrefillEstimate(graph))
        self._batch_builder = BatchBuilder(graph, policy, self._queues, self._block_manager, max_batch_size)
        self._active = RunningKernels(policy)
        self._selector = KernelSelector(
            graph, policy, self._queues, self._batch_builder, self._active, max_batch_size
        )

    # What is asked of it.

    @property
    def waiting(self) -> int:
        """Sequences that hold no blocks."""
        return self._queues.waiting

    @property
    def running(self) -> int:
        """Sequences that hold blocks."""
        return len(self._queues.running)

    @property
    def evictions(self) -> int:
        """Times a sequence lost its blocks to a more urgent one."""
        return self._batch_builder.evictions

    @property
    def preemptions(self) -> int:
        """Times a pass was left between two kernels for a more urgent one."""
        return self._selector.preemptions

    @property
    def usable_tokens(self) -> int:
        """Tokens that fit if one sequence had all the memory that is left (see :meth:`kernel_failed`)."""
        return self._block_manager.usable_tokens

    @property
    def busy(self) -> list[Role]:
        """Where kernels are running."""
        return [active.role for active in self._active]

    def running_on(self, role: Role) -> Batch:
        """The pass whose kernel runs on ``role``, which is busy."""
        return self._active[role].batch

    def patience(self, cost: KernelCost) -> float:
        """Seconds after which a kernel of ``cost`` is taken to hang."""
        return max(self.policy.hang_timeout_s, 50 * cost.seconds)

    def next_event(self) -> float:
        """When :meth:`expired` or :meth:`overdue` may have something to say, or kept memory becomes free."""
        times = [self._given_up_at(active) for active in self._active]
        times.append(self._queues.next_deadline)
        if self.waiting:
            times.append(self._block_manager.next_expiry())
        return min(times)

    # Events.

    def arrive(self, sequence: Sequence, now: float) -> Sequence | None:
        """Let a WAITING sequence in. It must fit the arena if it had it for itself, answer included.

        Returns:
            The sequence that was shed for it, now FINISHED: itself, if nobody is less urgent.
        """
        self._queues.arrive(sequence, now)
        if self.policy.preemption is Preemption.RESTART and not sequence.rank:
            self._batch_builder.restart_prompts()
        if self.waiting <= self.policy.max_waiting:
            return None
        shed = self._queues.last_waiting
        self.finish(shed)
        return shed

    def finish(self, sequence: Sequence) -> None:
        """End a sequence in any state, for whatever reason; its blocks are free when it is in no pass."""
        if sequence.state is SequenceState.FINISHED:
            return
        self._queues.finish(sequence)
        batch = self._batch_builder.batch_of(sequence)
        if batch is None:
            self._block_manager.release(sequence)
        elif batch.role is None and batch.abandoned:
            self._batch_builder.drop(batch)

    def propose(self, sequence: Sequence, draft: tuple[int, ...]) -> None:
        """Let the next decode of a DECODE sequence compute ``draft`` as well, instead of any earlier one.

        Sample from all rows of its slice, in order, as long as what is sampled is what was drafted, and
        :meth:`accept` each such token.
        """
        sequence.draft = draft

    def accept(self, sequence: Sequence) -> None:
        """Note that a drafted token, by now the last of the sequence, was right: it need not be computed."""
        self._batch_builder.advance(sequence, 1)

    def extend(self, sequence: Sequence, tokens: Iterable[int]) -> None:
        """Append ``tokens`` that nobody sampled to a DECODE sequence, which keeps what it holds.

        They must fit the arena, and so must what may be sampled behind them.
        """
        begin = len(sequence.tokens)
        sequence.tokens += tokens
        sequence.given.append(range(begin, len(sequence.tokens)))
        sequence.draft = ()
        sequence.state = SequenceState.PREFILL

    def tool_wait(self, sequence: Sequence, now: float) -> None:
        """Hold the blocks of a FINISHED sequence whose tools are running, for its next turn."""
        if self.policy.tool_wait_s > 0:
            self._block_manager.keep(sequence, now + self.policy.tool_wait_s)

    def kernel_done(self, role: Role, now: float) -> Batch | None:
        """Note that the kernel on ``role`` has ended.

        Returns:
            The pass, if it is through: sample from it, in the order of its slices, for those that are alive.
        """
        batch = self._active.end(role).batch
        batch.role = None
        batch.context.position += 1
        if batch.abandoned:
            self._batch_builder.drop(batch)
        elif batch.context.next_kernel is None:
            self._batch_builder.complete(batch)
            self._selector.batch_done(batch, now)
            return batch
        elif self.policy.preemption is Preemption.RESTART and batch.rank and self._queues.alive(0):
            self._batch_builder.restart_prompts()
        return None

    def kernel_failed(self, role: Role, *, hung: bool) -> list[Sequence]:
        """Note that the kernel on ``role`` failed, or ``hung`` and may still write to its blocks at any time.

        What it was writing to is lost, in the latter case for good; everything else is sound.

        Returns:
            Those to whom it happened too often, now FINISHED.
        """
        batch = self._active.end(role).batch
        batch.role = None
        given_up = self._batch_builder.fail(batch, hung=hung)
        for sequence in given_up:
            self.finish(sequence)
        return given_up

    def expired(self, now: float) -> list[Sequence]:
        """End those whose deadline has passed, and return them."""
        late = self._queues.late(now)
        for sequence in late:
            self.finish(sequence)
        return late

    def overdue(self, now: float) -> list[Role]:
        """Where a kernel hangs: it has run far longer than it should."""
        return [active.role for active in self._active if self._given_up_at(active) <= now]

    def take_dropped(self) -> list[BatchContext]:
        """The contexts of passes that will not be gone on with, since last asked: to be released."""
        dropped = self._batch_builder.dropped
        if dropped:
            self._batch_builder.dropped = []
        return dropped

    def check_integrity(self) -> None:
        """Check that no block is lost and no sequence or pass is where it cannot be.

        Raises:
            AssertionError: always a bug.
        """
        self._queues.check_integrity()
        self._batch_builder.check_integrity()
        if {batch for batch in self._batch_builder.batches if batch.role is not None} != {
            active.batch for active in self._active
        }:
            raise AssertionError("a pass is said to run that does not, or the other way round")

    # Decisions.

    def dispatch(self, now: float) -> list[Dispatch]:
        """Give every idle XPU its next kernel, if there is one that may run; they count as started."""
        self._block_manager.drop_expired(now)
        self._queues.promote(now)
        decisions: list[Dispatch] = []
        while (decision := self._selector.next(now)) is not None:
            decisions.append(decision)
        for batch in [
            batch
            for batch in self._batch_builder.batches
            if not batch.context.position and batch.role is None
        ]:
            self._batch_builder.drop(batch)  # who can join it by the time that it may begin shall do so
        return decisions

    def _given_up_at(self, active: RunningKernel) -> float:
        return active.started + self.patience(active.cost)
