"""Which kernel runs next on an idle XPU: urgency, backfill and migration (Agent.xpu §6.2 to §6.5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ..heg.graph import ExecutionGraph
from ..heg.kernel import BatchShape, Kernel, KernelCost, Role
from .batch import Batch, Stage
from .batch_builder import BatchBuilder
from .policy import Policy
from .queues import RequestQueues
from .running_kernels import RunningKernel, RunningKernels, Verdict

_PAST_STEP: Final = 256
_MOST_COSTS: Final = 4096


class Dispatch(NamedTuple):
    """A decision: this kernel of this pass starts now on the XPU of this role."""

    batch: Batch
    kernel: Kernel
    role: Role
    cost: KernelCost


class _Option(NamedTuple):
    """A kernel that could run next: the one of ``run`` whose turn it is, on the route ``kernels``."""

    batch: Batch
    kernels: tuple[Kernel, ...]
    cost: KernelCost

    def efficiency(self) -> float:
        """Token-layers computed for each joule."""
        kernel = self.kernels[self.batch.context.position]
        return self.batch.context.shape.tokens * len(kernel.layers) / max(self.cost.joules, 1e-12)


class KernelSelector:
    """Chooses kernels among the passes in progress and those that could begin; remembers whose turn it is."""

    def __init__(
        self,
        graph: ExecutionGraph,
        policy: Policy,
        queues: RequestQueues,
        batch_builder: BatchBuilder,
        active: RunningKernels,
        max_batch_size: int,
    ) -> None:
        """Nobody has had a turn yet."""
        self._graph = graph
        self._policy = policy
        self._queues = queues
        self._batch_builder = batch_builder
        self._active = active
        self._max_batch_size = max_batch_size
        self._roles = (Role.DECODE,) if graph.static_tokens is None else (Role.PREFILL, Role.DECODE)
        self._mixes = policy.background_mixes and len(self._roles) == 1
        self._costs: dict[tuple[object, ...], KernelCost] = {}
        self._slack = dict.fromkeys(self._roles, 0.0)
        self._last_on = dict.fromkeys(self._roles, 0)
        self._since_promoted = 0
        self._last_rank = 0
        self._decoded: dict[int, float] = {}
        self.preemptions = 0
        """Times a pass was left between two kernels for a more urgent one."""

    def next(self, now: float) -> Dispatch | None:
        """The most urgent kernel for any idle XPU, or None if nothing may run there now."""
        if len(self._active) == len(self._roles):
            return None
        for rank in self._turns():
            for role in self._roles:
                decision = None if role in self._active else self._choose(rank, role, now)
                if isinstance(decision, Dispatch):
                    return decision
                if decision is Verdict.WAIT:
                    return None  # nothing less urgent shall slip in before it
        return None

    def batch_done(self, batch: Batch, now: float) -> None:
        """Note that a pass is through: its class decodes again when its gap is over."""
        for sequence in batch.sequences:
            if batch.stage is Stage.PREFILL:
                self._decoded.setdefault(sequence.rank, now)
            else:
                self._decoded[sequence.rank] = now

    def _turns(self) -> Iterable[int]:
        """The classes, the one whose turn it is first."""
        if self._policy.time_share:
            return sorted(self._queues.queues, key=lambda rank: rank == self._last_rank)
        if self._queues.promoted and self._since_promoted >= self._policy.promoted_stride:
            return sorted(self._queues.queues, reverse=True)
        return self._queues.queues

    def _choose(self, rank: int, role: Role, now: float) -> Dispatch | Verdict:
        """The kernel that work of ``rank`` runs on ``role`` now, or why there is none."""
        options = self._options(rank, role, now)
        if len(self._roles) > 1 and not rank and not self._last_on[role]:
            options = itertools.chain(self._affordable(role), options)
        if self._active and any(active.batch.rank < rank for active in self._active):
            # Backfill beside reactive work: the most work for the energy first (§6.3).
            options = iter(sorted(options, key=_Option.efficiency, reverse=True))
        for option in options:
            batch = option.batch
            favoured = batch.promoted and self._since_promoted >= self._policy.promoted_stride
            verdict = self._active.judge(option.cost, 0 if favoured else batch.rank, role, now)
            if verdict is Verdict.LAUNCH:
                return self._launch(option, role, now)
            if verdict is Verdict.WAIT:
                return verdict
        return Verdict.DEFER

    def _options(self, rank: int, role: Role, now: float) -> Iterator[_Option]:
        """What work of ``rank`` could run on ``role``, the most urgent first."""
        for stage in self._stages(rank, now):
            alike = [
                batch for batch in self._batch_builder.batches if batch.rank == rank and batch.stage is stage
            ]
            idle = [batch for batch in alike if batch.role is None]
            idle.sort(key=lambda batch: (not batch.promoted, len(batch.context.remaining)))
            for batch in idle:
                if batch.context.kernels[batch.context.position].roles[0] is role:
                    yield self._option(batch, batch.context.kernels, role)
            most = len(self._roles) if stage is Stage.PREFILL else 1
            if len(alike) < most and (role is Role.DECODE or stage is not Stage.DECODE):
                new = self._batch_builder.build(stage, rank)
                if new is not None and new.context.kernels[0].roles[0] is role:
                    yield self._option(new, new.context.kernels, role)
            for batch in idle:
                kernels = self._rerouted(batch) if role is Role.DECODE else None
                if kernels is not None:
                    yield self._option(batch, kernels, role)

    def _affordable(self, role: Role) -> Iterator[_Option]:
        """Kernels of background passes, at home elsewhere, that may hold up reactive work on ``role`` now."""
        for batch in self._batch_builder.batches:
            kernel = batch.context.next_kernel
            if kernel is None or not batch.rank or batch.role is not None or kernel.roles[0] is not role:
                continue
            if batch.context.kernels[0].roles[0] is not role:
                option = self._option(batch, batch.context.kernels, role)
                if option.cost.seconds <= self._slack[role]:
                    yield option

    def _option(self, batch: Batch, kernels: tuple[Kernel, ...], role: Role) -> _Option:
        return _Option(batch, kernels, self._cost(kernels[batch.context.position], batch.context.shape, role))

    def _cost(self, kernel: Kernel, shape: BatchShape, role: Role) -> KernelCost:
        """The profile's estimate, asked anew only when the past has grown by some blocks."""
        key = (
            *(kernel.kind, kernel.layers.start, kernel.layers.stop, role),
            *(shape.tokens, shape.sequences, shape.rows, shape.past_tokens // _PAST_STEP),
        )
        cost = self._costs.get(key)
        if cost is None:
            if len(self._costs) >= _MOST_COSTS:
                self._costs.clear()
            cost = self._costs[key] = self._graph.profile.estimate(kernel, shape, role)
        return cost

    def _stages(self, rank: int, now: float) -> tuple[Stage, ...]:
        """What a class does first: prompts, unless its decodes have waited or are as many as a pass holds.

        Or both at once, where it may. A mixed pass that has paused goes on before anything else of its class.
        """
        if self._policy.mixed_batches:
            return (Stage.MIXED,)
        stages = self._separate_stages(rank, now)
        begun = [batch.stage for batch in self._batch_builder.batches if batch.rank == rank]
        if Stage.MIXED in begun:
            return (Stage.MIXED, *stages)
        if self._mixes and rank and not begun and len(stages) > 1 and not self._queues.alive(0):
            return (Stage.MIXED,)
        return stages

    def _separate_stages(self, rank: int, now: float) -> tuple[Stage, ...]:
        decoding = prompts = 0
        for sequence in self._queues.running:
            if sequence.rank == rank:
                prompts += sequence.prefills
                decoding += not sequence.prefills
        if not prompts and not self._queues.queues[rank]:
            return (Stage.DECODE,)
        if not decoding:
            return (Stage.PREFILL,)
        gap = self._policy.proactive_decode_gap_s if rank else self._policy.reactive_decode_gap_s
        if decoding >= self._max_batch_size or now - self._decoded.get(rank, now) >= gap:
            return (Stage.DECODE, Stage.PREFILL)
        return (Stage.PREFILL, Stage.DECODE)

    def _rerouted(self, batch: Batch) -> tuple[Kernel, ...] | None:
        """The kernels of a pass if it left the XPU that it would otherwise wait for (§6.5, load balancing).

        While there is promoted work reactive prompts stay: it gets the other XPU to itself.
        """
        context = batch.context
        wanted = context.kernels[context.position].roles[0]
        if wanted not in self._active or (self._queues.promoted and not batch.rank):
            return None
        if not context.position:
            return self._graph.kernels_for(context.shape, avoid=wanted)
        home = context.kernels
        if not self._graph.reroute(context):
            return None
        context.kernels, rerouted = home, context.kernels
        return rerouted

    def _launch(self, option: _Option, role: Role, now: float) -> Dispatch:
        batch, kernels, cost = option
        for other in self._batch_builder.batches:
            if other.role is None and other.rank > batch.rank and other.context.position and not other.paused:
                other.paused = True
                self.preemptions += 1
        batch.role = role
        batch.paused = False
        batch.context.kernels = kernels
        kernel = kernels[batch.context.position]
        self._active.start(RunningKernel(batch, kernel, role, cost, now))
        self._last_rank = batch.rank
        self._slack[role] += cost.seconds * (-1 if batch.rank else self._policy.background_share)
        self._last_on[role] = batch.rank
        self._slack[role] = min(max(self._slack[role], 0.0), self._graph.quantum_s)
        served = batch.rank > 0 or self._queues.promoted.issubset(batch.sequences)
        self._since_promoted = 0 if served else self._since_promoted + 1
        return Dispatch(batch, kernel, role, cost)
