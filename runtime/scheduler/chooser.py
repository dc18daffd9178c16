"""Which kernel runs next on an idle XPU: urgency, backfill and migration (Agent.xpu §6.2 to §6.5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ..heg import Kernel, KernelCost, PassShape, Role
from ..heg.graph import ExecutionGraph
from .composer import Composer
from .contention import ActiveKernel, ActiveKernels, Verdict
from .passes import Pass, Stage
from .policy import Policy
from .roster import Roster

_PAST_STEP: Final = 256
_MOST_COSTS: Final = 4096


class Dispatch(NamedTuple):
    """A decision: this kernel of this pass starts now on the XPU of this role."""

    run: Pass
    kernel: Kernel
    role: Role
    cost: KernelCost


class _Option(NamedTuple):
    """A kernel that could run next: the one of ``run`` whose turn it is, on the route ``kernels``."""

    run: Pass
    kernels: tuple[Kernel, ...]
    cost: KernelCost

    def efficiency(self) -> float:
        """Token-layers computed for each joule."""
        kernel = self.kernels[self.run.context.position]
        return self.run.context.shape.tokens * len(kernel.layers) / max(self.cost.joules, 1e-12)


class Chooser:
    """Chooses kernels among the passes in progress and those that could begin; remembers whose turn it is."""

    def __init__(
        self,
        graph: ExecutionGraph,
        policy: Policy,
        roster: Roster,
        composer: Composer,
        active: ActiveKernels,
        max_batch_size: int,
    ) -> None:
        """Nobody has had a turn yet."""
        self._graph = graph
        self._policy = policy
        self._roster = roster
        self._composer = composer
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

    def note_through(self, run: Pass, now: float) -> None:
        """Note that a pass is through: its class decodes again when its gap is over."""
        for sequence in run.sequences:
            if run.stage is Stage.PREFILL:
                self._decoded.setdefault(sequence.rank, now)
            else:
                self._decoded[sequence.rank] = now

    def _turns(self) -> Iterable[int]:
        """The classes, the one whose turn it is first."""
        if self._policy.time_share:
            return sorted(self._roster.queues, key=lambda rank: rank == self._last_rank)
        if self._roster.promoted and self._since_promoted >= self._policy.promoted_stride:
            return sorted(self._roster.queues, reverse=True)
        return self._roster.queues

    def _choose(self, rank: int, role: Role, now: float) -> Dispatch | Verdict:
        """The kernel that work of ``rank`` runs on ``role`` now, or why there is none."""
        options = self._options(rank, role, now)
        if len(self._roles) > 1 and not rank and not self._last_on[role]:
            options = itertools.chain(self._affordable(role), options)
        if self._active and any(active.run.rank < rank for active in self._active):
            # Backfill beside reactive work: the most work for the energy first (§6.3).
            options = iter(sorted(options, key=_Option.efficiency, reverse=True))
        for option in options:
            run = option.run
            favoured = run.promoted and self._since_promoted >= self._policy.promoted_stride
            verdict = self._active.judge(option.cost, 0 if favoured else run.rank, role, now)
            if verdict is Verdict.LAUNCH:
                return self._launch(option, role, now)
            if verdict is Verdict.WAIT:
                return verdict
        return Verdict.DEFER

    def _options(self, rank: int, role: Role, now: float) -> Iterator[_Option]:
        """What work of ``rank`` could run on ``role``, the most urgent first."""
        for stage in self._stages(rank, now):
            alike = [run for run in self._composer.passes if run.rank == rank and run.stage is stage]
            idle = [run for run in alike if run.role is None]
            idle.sort(key=lambda run: (not run.promoted, len(run.context.remaining)))
            for run in idle:
                if run.context.kernels[run.context.position].roles[0] is role:
                    yield self._option(run, run.context.kernels, role)
            most = len(self._roles) if stage is Stage.PREFILL else 1
            if len(alike) < most and (role is Role.DECODE or stage is not Stage.DECODE):
                new = self._composer.compose(stage, rank)
                if new is not None and new.context.kernels[0].roles[0] is role:
                    yield self._option(new, new.context.kernels, role)
            for run in idle:
                kernels = self._rerouted(run) if role is Role.DECODE else None
                if kernels is not None:
                    yield self._option(run, kernels, role)

    def _affordable(self, role: Role) -> Iterator[_Option]:
        """Kernels of background passes, at home elsewhere, that may hold up reactive work on ``role`` now."""
        for run in self._composer.passes:
            kernel = run.context.next_kernel
            if kernel is None or not run.rank or run.role is not None or kernel.roles[0] is not role:
                continue
            if run.context.kernels[0].roles[0] is not role:
                option = self._option(run, run.context.kernels, role)
                if option.cost.seconds <= self._slack[role]:
                    yield option

    def _option(self, run: Pass, kernels: tuple[Kernel, ...], role: Role) -> _Option:
        return _Option(run, kernels, self._cost(kernels[run.context.position], run.context.shape, role))

    def _cost(self, kernel: Kernel, shape: PassShape, role: Role) -> KernelCost:
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
        if self._policy.mixed_passes:
            return (Stage.MIXED,)
        stages = self._separate_stages(rank, now)
        begun = [run.stage for run in self._composer.passes if run.rank == rank]
        if Stage.MIXED in begun:
            return (Stage.MIXED, *stages)
        if self._mixes and rank and not begun and len(stages) > 1 and not self._roster.alive(0):
            return (Stage.MIXED,)
        return stages

    def _separate_stages(self, rank: int, now: float) -> tuple[Stage, ...]:
        decoding = prompts = 0
        for sequence in self._roster.running:
            if sequence.rank == rank:
                prompts += sequence.prefills
                decoding += not sequence.prefills
        if not prompts and not self._roster.queues[rank]:
            return (Stage.DECODE,)
        if not decoding:
            return (Stage.PREFILL,)
        gap = self._policy.proactive_decode_gap_s if rank else self._policy.reactive_decode_gap_s
        if decoding >= self._max_batch_size or now - self._decoded.get(rank, now) >= gap:
            return (Stage.DECODE, Stage.PREFILL)
        return (Stage.PREFILL, Stage.DECODE)

    def _rerouted(self, run: Pass) -> tuple[Kernel, ...] | None:
        """The kernels of a pass if it left the XPU that it would otherwise wait for (§6.5, load balancing).

        While there is promoted work reactive prompts stay: it gets the other XPU to itself.
        """
        context = run.context
        wanted = context.kernels[context.position].roles[0]
        if wanted not in self._active or (self._roster.promoted and not run.rank):
            return None
        if not context.position:
            return self._graph.kernels_for(context.shape, avoid=wanted)
        home = context.kernels
        if not self._graph.reroute(context):
            return None
        context.kernels, rerouted = home, context.kernels
        return rerouted

    def _launch(self, option: _Option, role: Role, now: float) -> Dispatch:
        run, kernels, cost = option
        for other in self._composer.passes:
            if other.role is None and other.rank > run.rank and other.context.position and not other.paused:
                other.paused = True
                self.preemptions += 1
        run.role = role
        run.paused = False
        run.context.kernels = kernels
        kernel = kernels[run.context.position]
        self._active.start(ActiveKernel(run, kernel, role, cost, now))
        self._last_rank = run.rank
        self._slack[role] += cost.seconds * (-1 if run.rank else self._policy.background_share)
        self._last_on[role] = run.rank
        self._slack[role] = min(max(self._slack[role], 0.0), self._graph.quantum_s)
        served = run.rank > 0 or self._roster.promoted.issubset(run.sequences)
        self._since_promoted = 0 if served else self._since_promoted + 1
        return Dispatch(run, kernel, role, cost)
