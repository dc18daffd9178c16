"""Selects the next kernel for an idle XPU: urgency, backfill and aging (Agent.xpu §6.2 to §6.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from ..heg.kernel import BatchContext, BatchShape, Kernel, Role
from ..heg.profile import KernelCost
from .batch import Batch, Stage
from .batch_builder import BatchBuilder
from .launch_decision import ActiveKernels, LaunchDecision, ScheduledKernel, decide_launch
from .sequence import REACTIVE_LEVEL

_PAST_STEP: Final = 256
"""Past tokens after which a cached cost is estimated again."""

_MAX_CACHED_COSTS: Final = 4096


class _Candidate(NamedTuple):
    """A kernel that could run next: the next one of ``context``, of ``batch``."""

    batch: Batch
    context: BatchContext
    kernel: Kernel
    cost: KernelCost

    def efficiency(self) -> float:
        """Token-layers computed per joule."""
        kernel = self.kernel
        return self.context.shape.tokens * len(kernel.layers) / max(self.cost.joules, 1e-12)


_Paused: TypeAlias = tuple[Batch, BatchContext]
"""A batch in progress, and a context of it whose next kernel may start."""


class KernelSelector:
    """Selects kernels of batches in progress and of batches it starts, in the policy's order."""

    def __init__(self, builder: BatchBuilder, active: ActiveKernels) -> None:
        """``active`` is the table that selected kernels are entered in."""
        self._graph, self._policy, self._queues = builder.graph, builder.policy, builder.queues
        self._batches = builder.batches
        self._builder = builder
        self._active = active
        self._roles = (Role.DECODE,) if self._graph.static_tokens is None else (Role.PREFILL, Role.DECODE)
        self._costs: dict[tuple[object, ...], KernelCost] = {}
        self.update_costs()
        self._background_credit_s = dict.fromkeys(self._roles, 0.0)
        self._last_level_on = dict.fromkeys(self._roles, REACTIVE_LEVEL)
        self._kernels_since_promoted = 0
        self._last_level = REACTIVE_LEVEL
        self._last_decode: dict[int, float] = {}
        self.preemptions = 0
        """Times a batch was paused between two kernels for a more urgent one."""

    def update_costs(self) -> None:
        """Decide by the present costs of the graph."""
        self._costs.clear()
        # Where a block of a prompt beside decodes takes too long, prompts would wait until those end.
        # Prompts that can be interrupted are computed in larger chunks, which decodes could not share: run
        # once more, they would write keys and values that are quantised otherwise.
        graph, most = self._graph, self._builder.max_batch_size
        may_mix = self._policy.mixes and len(self._roles) == 1
        smallest_s = graph.longest_kernel_s(BatchShape(graph.block_tokens + most - 1, most, 0, most))
        reactive_s = self._builder.kernel_limit_s(Stage.MIXED, REACTIVE_LEVEL)
        self._mixes_reactive = may_mix and smallest_s <= reactive_s
        self._mixes_background = may_mix and graph.interruptible_s is None and smallest_s <= graph.quantum_s

    def select(self, now: float, *, background: bool = True) -> ScheduledKernel | None:
        """Start the most urgent kernel that may run on any idle XPU; None if none may run now.

        ``background`` says whether it may be one of background work.
        """
        if len(self._active) == len(self._roles):
            return None
        for level in self._level_order():
            if level > REACTIVE_LEVEL and not background:
                continue
            for role in self._roles:
                decision = None if role in self._active else self._select_on(role, level, now)
                if isinstance(decision, ScheduledKernel):
                    return decision
                if decision is LaunchDecision.WAIT:
                    return None  # no less urgent kernel may start before it
        return None

    def select_next(self, batch: Batch, now: float) -> ScheduledKernel:
        """Start the next kernel of ``batch``, without which there is no work, on the platform's only XPU."""
        return self._launch(self._candidate(batch, batch.context, Role.DECODE), Role.DECODE, now)

    def note_completed(self, batch: Batch, now: float) -> None:
        """Note when the priority levels of a completed batch last decoded; the decode gap counts from it."""
        for chunk in batch.chunks:
            if batch.stage is Stage.PREFILL:
                self._last_decode.setdefault(chunk.sequence.level, now)
            else:
                self._last_decode[chunk.sequence.level] = now

    def _level_order(self) -> Iterable[int]:
        """The priority levels in the order in which they may start a kernel now; aging reverses it (§6.5)."""
        if self._policy.time_share:
            return sorted(self._queues.by_level, key=lambda level: level == self._last_level)
        if self._queues.promoted and self._kernels_since_promoted >= self._policy.promoted_stride:
            return sorted(self._queues.by_level, reverse=True)
        return self._queues.by_level

    def _select_on(self, role: Role, level: int, now: float) -> ScheduledKernel | LaunchDecision:
        """Start a kernel of ``level`` on ``role``, or return why none may start.

        Batches in progress come before a new one.
        """
        if level != REACTIVE_LEVEL and self._queues.has_urgent_work:
            self._drop_longer_than_quantum()
        if any(other.batch.level < level for other in self._active.values()):
            return self._backfill(role, level, now)
        decision: ScheduledKernel | LaunchDecision = LaunchDecision.DEFER
        if len(self._roles) > 1 and level == self._last_level_on[role] == REACTIVE_LEVEL:
            decision = self._launch_first(self._background_within_credit(role), role, now)
        for stage in self._stages(level, now) if decision is LaunchDecision.DEFER else ():
            paused = self._paused(self._in_progress(stage, level))
            decision = self._launch_first(self._resumed(paused, role), role, now)
            if decision is LaunchDecision.DEFER:
                decision = self._launch_first(
                    self._resumed(self._start_new(stage, level, role), role), role, now
                )
            if decision is not LaunchDecision.DEFER:
                return decision
        return decision

    def _backfill(self, role: Role, level: int, now: float) -> ScheduledKernel | LaunchDecision:
        """Start a kernel of ``level`` beside more urgent work: the most work for the energy first (§6.3)."""
        candidates: list[_Candidate] = []
        for stage in self._stages(level, now):
            paused = self._paused(self._in_progress(stage, level))
            paused += self._start_new(stage, level, role)
            candidates += self._resumed(paused, role)
        candidates.sort(key=_Candidate.efficiency, reverse=True)
        return self._launch_first(candidates, role, now)

    def _launch_first(
        self, candidates: Iterable[_Candidate], role: Role, now: float
    ) -> ScheduledKernel | LaunchDecision:
        """Start the first of ``candidates`` that may start on ``role`` now, or return why none may."""
        for candidate in candidates:
            batch = candidate.batch
            if batch not in self._batches:
                continue  # dropped: starting the batch of another candidate evicted a sequence of it
            promoted_first = batch.promoted and self._kernels_since_promoted >= self._policy.promoted_stride
            as_level = REACTIVE_LEVEL if promoted_first else batch.level
            decision = decide_launch(self._policy, self._active, candidate.cost, as_level, role, now)
            if decision is LaunchDecision.LAUNCH:
                return self._launch(candidate, role, now)
            if decision is LaunchDecision.WAIT:
                return decision
        return LaunchDecision.DEFER

    def _paused(self, batches: Iterable[Batch]) -> list[_Paused]:
        """The contexts of ``batches`` whose next kernels may start, those of the most urgent batch first."""
        ordered = sorted(batches, key=lambda batch: (not batch.promoted, len(batch.context.remaining)))
        return [(batch, context) for batch in ordered for context in batch.startable()]

    def _in_progress(self, stage: Stage, level: int) -> list[Batch]:
        return [batch for batch in self._batches if batch.level == level and batch.stage is stage]

    def _resumed(self, paused: Iterable[_Paused], role: Role) -> list[_Candidate]:
        """The next kernels of ``paused`` contexts that prefer ``role``."""
        return [
            self._candidate(batch, context, role)
            for batch, context in paused
            if context.kernels[context.position].roles[0] is role
        ]

    def _start_new(self, stage: Stage, level: int, role: Role) -> list[_Paused]:
        """Start a new batch beside those in progress, if one may be on ``role``.

        Its sequences are admitted and get their blocks, for which others may be evicted. If its kernel is not
        started in this round, the batch is dropped at the end of it.
        """
        max_in_progress = len(self._roles) if stage is Stage.PREFILL else 1
        decodes_here = role is Role.DECODE or self._graph.decodes_split
        if len(self._in_progress(stage, level)) >= max_in_progress or not (
            decodes_here or stage is not Stage.DECODE
        ):
            return []
        new = self._builder.start_batch(stage, level)
        return [] if new is None else self._paused([new])

    def _drop_longer_than_quantum(self) -> None:
        """Drop the paused batches whose next kernel may be so long only while nothing is more urgent."""
        paused = [batch for batch in self._batches if batch.interruptible and batch.running_on is None]
        for batch in paused:
            candidate = self._candidate(batch, batch.context, Role.DECODE)
            if candidate.cost.seconds > self._graph.quantum_s:
                self._batches.drop(batch)

    def _background_within_credit(self, role: Role) -> list[_Candidate]:
        """Kernels on ``role``, within the earned time, of background batches that began on another XPU.

        See :attr:`Policy.background_share`: these kernels go before reactive ones on ``role``.
        """
        paused = self._paused(batch for batch in self._batches if batch.is_background)
        moved = [(batch, context) for batch, context in paused if context.kernels[0].roles[0] is not role]
        credit_s = self._background_credit_s[role]
        return [each for each in self._resumed(moved, role) if each.cost.seconds <= credit_s]

    def _candidate(self, batch: Batch, context: BatchContext, role: Role) -> _Candidate:
        kernel = context.kernels[context.position]
        return _Candidate(batch, context, kernel, self._cost(kernel, context.shape, role))

    def _cost(self, kernel: Kernel, shape: BatchShape, role: Role) -> KernelCost:
        """The cost model's estimate, cached until the past has grown by some blocks."""
        key = (
            *(kernel.kind, kernel.layers.start, kernel.layers.stop, role),
            *(shape.tokens, shape.sequences, shape.logits_rows, shape.past_tokens // _PAST_STEP),
        )
        cost = self._costs.get(key)
        if cost is None:
            if len(self._costs) >= _MAX_CACHED_COSTS:
                self._costs.clear()
            cost = self._costs[key] = self._graph.cost_model.estimate(kernel, shape, role)
        return cost

    def _stages(self, level: int, now: float) -> tuple[Stage, ...]:
        """The stages of which a priority level may start a kernel, in order of preference.

        A mixed batch in progress resumes before any other batch of its level.
        """
        if self._policy.mixed_batches:
            return (Stage.MIXED,)
        stages = self._separate_stages(level, now)
        in_progress = [batch.stage for batch in self._batches if batch.level == level]
        if Stage.MIXED in in_progress:
            return (Stage.MIXED, *stages)
        if level == REACTIVE_LEVEL:
            mixes = self._mixes_reactive
        else:
            mixes = self._mixes_background and not self._queues.has_reactive_work
        return (Stage.MIXED, Stage.DECODE) if mixes and not in_progress and len(stages) > 1 else stages

    def _separate_stages(self, level: int, now: float) -> tuple[Stage, ...]:
        """Prefill first, unless decodes that go before it fill a batch, or were delayed by the decode gap."""
        running = self._queues.running_at(level)
        prompts = sum(sequence.needs_prefill for sequence in running)
        if not prompts and not self._queues.by_level[level]:
            return (Stage.DECODE,)
        if prompts == len(running):
            return (Stage.PREFILL,)
        policy = self._policy
        gap = policy.reactive_decode_gap_s if level == REACTIVE_LEVEL else policy.proactive_decode_gap_s
        if now - self._last_decode.get(level, now) >= gap or self._queues.decodes_fill_batch(level):
            return (Stage.DECODE, Stage.PREFILL)
        return (Stage.PREFILL, Stage.DECODE)

    def _launch(self, candidate: _Candidate, role: Role, now: float) -> ScheduledKernel:
        """Start a kernel, preempt less urgent batches, and update the background share and aging counters."""
        batch, context, kernel, cost = candidate
        self._preempt_less_urgent(batch.level)
        context.running_on = role
        batch.preempted = False
        promoted = self._queues.promoted
        scheduled = ScheduledKernel(
            batch, context, kernel, role, cost, now, bool(promoted) and batch.promoted
        )
        self._active[role] = scheduled
        self._last_level = self._last_level_on[role] = batch.level
        credit = self._background_credit_s[role]
        credit += cost.seconds * (-1 if batch.is_background else self._policy.background_share)
        self._background_credit_s[role] = min(max(credit, 0.0), self._graph.quantum_s)
        promoted_served = not promoted or batch.is_background or promoted.issubset(batch.sequences)
        self._kernels_since_promoted = 0 if promoted_served else self._kernels_since_promoted + 1
        return scheduled

    def _preempt_less_urgent(self, level: int) -> None:
        """Mark started batches of less urgent levels as preempted: their next kernels have to wait (§6.2).

        Nothing is copied or recomputed; a preempted batch resumes with its next kernel.
        """
        for batch in self._batches:
            started = batch.has_written and batch.running_on is None
            if started and batch.level > level and not batch.preempted:
                batch.preempted = True
                self.preemptions += 1
                for sequence in batch.sequences:
                    sequence.preemptions += 1
