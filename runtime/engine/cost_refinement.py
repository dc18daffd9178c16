"""Refines the costs that the scheduler decides by, from the kernels that an engine runs."""

from __future__ import annotations

from ..heg.kernel import KernelKind, Role
from ..heg.profile import Profile
from ..heg.refinement import ProfileRefiner
from ..scheduler.scheduler import Scheduler
from ..xpu.protocol import KernelDone
from .engine_group import EngineGroupMember


class CostRefinement:
    """Observes the kernels that ran as estimated, and gives refined costs to the scheduler.

    Used on the engine thread only.
    """

    def __init__(self, refiner: ProfileRefiner, scheduler: Scheduler, member: EngineGroupMember) -> None:
        """``member`` is the engine in its group."""
        self._refiner = refiner
        self._scheduler = scheduler
        self._member = member
        self._ended: dict[Role, float] = {}

    def observe(self, done: KernelDone) -> None:
        """Note how long a kernel took, if it ran as estimated. The scheduler has not completed it yet."""
        if self._ran_as_estimated(done):
            self._refiner.observe(done.role, done.kernel, done.context.shape, done.ended - done.started)

    def refine_if_due(self) -> None:
        """Refine the costs if many kernels have run since the last time."""
        self._use(self._refiner.refine_if_due())

    def refine(self) -> None:
        """Refine the costs, and store the profile."""
        self._use(self._refiner.refine())
        self._refiner.save()

    def close(self) -> None:
        """Refine and store the profile; the scheduler selects no more kernels."""
        self._refiner.refine()
        self._refiner.save()

    def _use(self, costs: Profile | None) -> None:
        if costs is not None:
            self._scheduler.use_costs(costs)

    def _ran_as_estimated(self, done: KernelDone) -> bool:
        """Whether nothing slowed the kernel down, and it had the graph that its estimate is for."""
        alone = self._ran_alone(done) and not self._scheduler.switcher.loading
        return alone and not (
            self._scheduler.switcher.has_two_graphs and done.kernel.kind is KernelKind.TOKENS
        )

    def _ran_alone(self, done: KernelDone) -> bool:
        """Whether no other XPU or engine can have run a kernel at the same time, which slows both down."""
        if not self._member.alone:
            return False
        self._ended[done.role] = done.ended
        others = [ended for role, ended in self._ended.items() if role is not done.role]
        return self._scheduler.busy_roles == [done.role] and max(others, default=0.0) <= done.started
