"""Refines the costs that the scheduler decides by, from the kernels that an engine runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..heg.kernel import KernelKind, Role
from ..heg.profile import Profile
from ..heg.refinement import ProfileRefiner
from ..scheduler.scheduler import Scheduler
from ..xpu.protocol import KernelDone
from .engine_group import EngineGroupMember


@dataclass(eq=False)
class CostRefinement:
    """Observes the kernels that ran as estimated, and gives refined costs to the scheduler.

    Used on the engine thread only.
    """

    refiner: ProfileRefiner
    scheduler: Scheduler
    member: EngineGroupMember
    """The engine in its group."""
    _ended: dict[Role, float] = field(default_factory=dict)

    def observe(self, done: KernelDone) -> None:
        """Note how long a kernel took, if it ran as estimated. The scheduler has not completed it yet."""
        if self._ran_as_estimated(done):
            self.refiner.observe(done.role, done.kernel, done.context.shape, done.ended - done.started)

    def refine_if_due(self) -> None:
        """Refine the costs if many kernels have run since the last time."""
        self._use(self.refiner.refine_if_due())

    def refine(self) -> None:
        """Refine the costs, and store the profile."""
        self._use(self.refiner.refine())
        self.refiner.save()

    def _use(self, costs: Profile | None) -> None:
        if costs is not None:
            self.scheduler.use_costs(costs)

    def _ran_as_estimated(self, done: KernelDone) -> bool:
        """Whether it had the graph of its estimate, and nothing ran beside it, which slows both down."""
        if not self.member.alone:
            return False
        self._ended[done.role] = done.ended
        others = [ended for role, ended in self._ended.items() if role is not done.role]
        if self.scheduler.busy_roles != [done.role] or max(others, default=0.0) > done.started:
            return False
        switcher = self.scheduler.switcher
        return not switcher.loading and not (
            switcher.has_two_graphs and done.kernel.kind is KernelKind.TOKENS
        )
